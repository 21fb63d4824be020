"""Whether messaging is there: asked, awaited, or told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from dragoman.client.cancellation import as_failure
from dragoman.core.errors import PublisherUnavailable
from dragoman.topology.metrics import TopicMetrics
from dragoman.topology.outlet import Outlet
from dragoman.topology.publisher import Publisher
from dragoman.topology.topic import Role, Topic

log = logging.getLogger("dragoman.topology")

T = TypeVar("T")


class Change(StrEnum):
    APPEARED = "appeared"
    REPLACED = "replaced"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Availability:
    """One change. ``admin`` is the transport that is there now."""

    change: Change
    admin: str | None
    why: str = ""


Listener = Callable[[Availability], None]


class Presence:
    """One user's interest in a topic, from the moment it is asked for until ``close``."""

    role: Role

    def __init__(self, topic: Topic, release: Callable[[Any], None], count_peers: Callable[[], int]) -> None:
        self.topic = topic
        self._release = release
        self._count_peers = count_peers
        self._admin: str | None = None
        self.why = "No admin has taken it yet."
        """Why it is not there, while it is not."""
        self._available = False
        self._changed = asyncio.Event()
        self._queues: list[asyncio.Queue[Availability | None]] = []
        self._listeners: list[Listener] = []
        self._closed = False
        self._peers_changed = asyncio.Event()
        self._peer_listeners: list[Callable[[int], None]] = []
        self._told_peers = 0

    @property
    def available(self) -> bool:
        return self._available and not self._closed

    @property
    def admin(self) -> str | None:
        """The type of the admin that serves it."""
        return self._admin

    def on_change(self, listener: Listener) -> None:
        """Called in the event loop at each change, and at once if it is there already."""
        self._listeners.append(listener)
        if self.available:
            self._tell_one(listener, Availability(Change.APPEARED, self._admin))

    async def changes(self) -> AsyncIterator[Availability]:
        """Each change, beginning with what is there already; ends when this is closed."""
        queue: asyncio.Queue[Availability | None] = asyncio.Queue()
        if self.available:
            queue.put_nowait(Availability(Change.APPEARED, self._admin))
        if self._closed:
            queue.put_nowait(None)
        self._queues.append(queue)
        try:
            while (change := await queue.get()) is not None:
                yield change
        finally:
            self._queues.remove(queue)

    async def _until_there(self, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                while not self.available:
                    self._check_open()
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise PublisherUnavailable(
                f"{self.topic} was not there in {timeout:g} seconds. {self.why}",
                next="Ask 'dragoman topology explain' which admins there are and why none takes it.",
                topic=self.topic.key,
            ) from None

    def _check_open(self) -> None:
        if self._closed:
            raise PublisherUnavailable(
                f"{self.topic} was given up: its {'request' if self.role is Role.PUBLISHER else 'offer'} or "
                "the topology is closed.",
                next="Ask the topology for it again.",
                topic=self.topic.key,
            )

    def become(self, change: Availability) -> None:
        """The manager's call."""
        self._admin, self.why = change.admin, change.why
        self._available = change.change is not Change.GONE
        self._changed.set()
        for queue in self._queues:
            queue.put_nowait(change)
        for listener in self._listeners:
            self._tell_one(listener, change)

    def _tell_one(self, listener: Callable[[T], None], change: T) -> None:
        try:
            listener(change)
        except BaseException as error:
            as_failure(error)
            log.exception("A listener failed.", extra={"topic": self.topic.key})

    def on_peers(self, listener: Callable[[int], None]) -> None:
        """Called in the event loop with the number of those on the other side, whenever it changes."""
        self._peer_listeners.append(listener)

    async def _until_peers(self, count: int, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                while self._count_peers() < count:
                    self._check_open()
                    self._peers_changed.clear()
                    await self._peers_changed.wait()
        except TimeoutError:
            raise PublisherUnavailable(
                f"{self._count_peers()} of {count} {self.role.other}s of {self.topic} came "
                f"in {timeout:g} seconds.",
                next="Look for them with 'dragoman topology list'; 'explain' tells who uses another admin.",
                topic=self.topic.key,
            ) from None

    def recount_peers(self) -> None:
        """The manager's call."""
        count = self._count_peers()
        if count != self._told_peers:
            self._told_peers = count
            self._peers_changed.set()
            for listener in self._peer_listeners:
                self._tell_one(listener, count)

    def close(self) -> None:
        """Not interested any more. What served it goes after a while, unless somebody else asks for it."""
        if not self._closed:
            self._closed = True
            self._release(self)
            self._changed.set()
            self._peers_changed.set()
            for queue in self._queues:
                queue.put_nowait(None)


class Request(Presence):
    """A publisher that was asked for."""

    role = Role.PUBLISHER

    def __init__(self, topic: Topic, release: Callable[[Any], None], count_peers: Callable[[], int]) -> None:
        super().__init__(topic, release, count_peers)
        self._publisher = Publisher(topic)

    def use(self, outlet: Outlet | None, why: str) -> None:
        """The manager's call."""
        self._publisher.use(outlet, why)

    @property
    def publisher(self) -> Publisher | None:
        """``None`` while there is no transport for it."""
        return self._publisher if self.available else None

    async def wait(self, timeout: float | None = None) -> Publisher:
        """Raises ``PublisherUnavailable`` after ``timeout`` seconds."""
        await self._until_there(timeout)
        return self._publisher

    @property
    def subscribers(self) -> int:
        """How many receivers of the topic are known, here and elsewhere, that use the same admin."""
        return self._count_peers()

    async def wait_for_subscribers(self, count: int = 1, timeout: float | None = None) -> None:
        """Until so many receivers are announced. Raises ``PublisherUnavailable``."""
        await self._until_peers(count, timeout)


class Offer(Presence):
    """A subscriber that was offered."""

    role = Role.SUBSCRIBER

    def __init__(
        self,
        topic: Topic,
        release: Callable[[Any], None],
        count_peers: Callable[[], int],
        receive: Callable[[Any, Any], Any],
        types: tuple[type, ...],
        metrics: TopicMetrics,
    ) -> None:
        super().__init__(topic, release, count_peers)
        self.receive = receive
        self.types = types
        self.metrics = metrics

    @property
    def publishers(self) -> int:
        """How many senders of the topic it is connected to."""
        return self._count_peers()

    async def wait_for_publishers(self, count: int = 1, timeout: float | None = None) -> None:
        """Until it is connected to so many senders. Raises ``PublisherUnavailable``."""
        await self._until_peers(count, timeout)

    async def wait(self, timeout: float | None = None) -> None:
        """Until messages can come. Raises ``PublisherUnavailable`` after ``timeout`` seconds."""
        await self._until_there(timeout)
