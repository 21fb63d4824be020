"""The admin port: one messaging technology, as the topology manager uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from dragoman.topology.endpoint import Endpoint
from dragoman.topology.metrics import TopicMetrics
from dragoman.topology.parcel import Parcel
from dragoman.topology.scoring import Score
from dragoman.topology.settings import Settings
from dragoman.topology.topic import Role, Topic


@dataclass(frozen=True, slots=True)
class Wanted:
    """A topic as an admin is asked for it, by the program ``framework``. ``id`` is what the endpoint will be
    announced as."""

    topic: Topic
    role: Role
    settings: Settings
    id: str = ""
    framework: str = ""
    latest_stamp: Callable[[str], int] = lambda framework: 0
    """The newest stamp (``stamp_ms``) that a program is known to have signed; 0 if none is known."""

    def setting(self, name: str) -> str:
        return self.settings[name].value

    def own(self, admin: str) -> dict[str, str]:
        """The properties that belong to this admin, without its name."""
        prefix = f"{admin}."
        return {
            name.removeprefix(prefix): each.value
            for name, each in self.settings.items()
            if name.startswith(prefix)
        }


class Inlet(Protocol):
    """Where a receiver hands over what came."""

    metrics: TopicMetrics

    async def deliver(self, parcel: Parcel, serializer: str, attempts: int = 1, once: bool = False) -> None:
        """Returns when all subscribers have handled it. One that fails is called up to ``attempts`` times.

        ``once`` drops what has come before, for networks that double things.

        Raises ``MessageError`` for a message that nobody could read, and what a subscriber raised.
        """

    def expects(self) -> bool:
        """Whether a subscriber is there. Without one, what can come again shall wait or be given back."""

    def progress(self, origin: str, sequence: int) -> None:
        """The sender says that this is the last number it has used."""


class TopicSender(Protocol):
    """Safe for many tasks of one event loop."""

    properties: Mapping[str, str]
    """For the endpoint: what a receiver must know to connect."""
    channel: str
    """Names the contracts of what is sent."""

    async def send(self, parcel: Parcel) -> None:
        """Returns once the parcel is as safe as this technology can make it. Raises ``BrokerError``."""

    async def close(self) -> None: ...


class TopicReceiver(Protocol):
    """All calls come from one task at a time."""

    properties: Mapping[str, str]

    async def connect(self, publisher: Endpoint) -> None:
        """A publisher of the topic that uses this admin has appeared. Calling it again changes nothing."""

    async def disconnect(self, publisher: Endpoint) -> None:
        """It is gone. Others may still use the same channel."""

    async def close(self) -> None: ...


class Admin(Protocol):
    type: str
    """A short name: ``kafka``. Its own properties begin with it."""

    async def start(self, changed: Callable[[], None]) -> None:
        """Called once. From now on it calls ``changed`` when ``trouble`` is another than before.

        It raises nothing when its server is away: that is its trouble, and it goes on trying.
        """

    @property
    def trouble(self) -> str | None:
        """Why it cannot be used at present."""

    def score(self, wanted: Wanted) -> Score: ...

    async def sender(self, wanted: Wanted) -> TopicSender: ...

    async def receiver(self, wanted: Wanted, inlet: Inlet) -> TopicReceiver: ...

    async def close(self) -> None:
        """After all its senders and receivers are closed."""
