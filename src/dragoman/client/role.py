"""A client may be one endpoint of a model. It asks its role what the model says; the language answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from dragoman.client.endpoint import Endpoint
from dragoman.core.broker import Capabilities
from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import MODELS, load
from dragoman.core.message import Headers
from dragoman.core.schema import Schema


class Sending(NamedTuple):
    """How messages are sent to a channel, unless whoever sends says otherwise."""

    expires_in: float | None = None
    """Seconds."""
    in_parts: bool = False
    """As a sequence, however large they are."""
    check_headers: Callable[[Headers], None] | None = None
    """Raises ``EncodeError`` for headers that are not the model's."""
    named: bool = False
    """With a message id, also where the broker can do without."""


@dataclass(frozen=True, slots=True)
class Owned:
    """The contract of a channel that the model has. Only ``dragoman model apply`` gives it new versions."""

    contract: str
    schema: Schema
    place: str
    """Where the model says so: file and line."""
    differences: Callable[[type], Sequence[str]]
    """Why a class cannot stand for the schema; empty if it can."""


class Role(Protocol):
    """One endpoint of a model."""

    def broker(self) -> str | None:
        """The URL of the broker that the model names for it, if it names one of a kind we know."""

    def sending(self, channel: str) -> Sending:
        """Raises ``ConfigurationError`` if the model does not let it send there."""

    def owned(self, channel: str) -> Owned | None:
        """What the model says is on a channel; ``None`` if the model has no such channel."""

    def directed(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint as the model wants it."""

    def disagreements(self, endpoints: Iterable[Endpoint], broker: Capabilities) -> Iterator[str]:
        """In which ways endpoints are not what the model says, each with its place in the model."""

    def unhandled(self, endpoints: Iterable[Endpoint]) -> Iterator[str]:
        """What the model wants handled, and none of these handles."""


def open_role(model: str | Path | None, name: str | None) -> Role | None:
    """The endpoint ``name`` of a model in a file; nothing without a model."""
    if model is None and name is None:
        return None
    if model is None or name is None:
        raise ConfigurationError(
            "A model and the endpoint that the client is belong together.",
            code="client.model",
            next="Give both: Client(model='loan-broker.mdsl', as_='Bank1').",
        )
    path = Path(model)
    role: Role = load(MODELS, path.suffix.lstrip(".") or "mdsl")(path, name)
    return role
