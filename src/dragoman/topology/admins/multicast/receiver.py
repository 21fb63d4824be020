"""Receiving a topic by UDP multicast."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dragoman.client.cancellation import ENDING, take_back_cancellation
from dragoman.core.ending import end
from dragoman.core.errors import ConfigurationError, FrameError
from dragoman.topology.admin import Inlet, Wanted
from dragoman.topology.admins.multicast.assembly import Assembly
from dragoman.topology.admins.multicast.course import Course, SignedCourse, Verdict
from dragoman.topology.admins.multicast.datagram import BEAT, DATA, Datagram, topic_hash
from dragoman.topology.admins.multicast.seals import Sealed, read_key
from dragoman.topology.admins.multicast.sockets import Group, Listener
from dragoman.topology.endpoint import Endpoint
from dragoman.topology.envelope import NO_HEADERS, unwrap
from dragoman.topology.parcel import Parcel, parcel_of
from dragoman.topology.settings import OVERFLOW, QUEUE

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

log = logging.getLogger("dragoman.topology")

BREATHER = 128
MOST_STRANGERS = 1024
"""Senders that nobody has announced. Who came first is forgotten first, and begins anew if it speaks."""


@dataclass(frozen=True, slots=True)
class Signed:
    key: Ed25519PublicKey
    course: SignedCourse


@dataclass(frozen=True, slots=True)
class Link:
    """One publisher. A static one without a sender's number stands for all senders of its topic."""

    origin: str
    serializer: str
    group: Group
    assembly: Assembly
    signed: Signed | None = None
    """Of a sender with an identity. Then nothing counts that it has not signed."""
    course: Course = field(default_factory=Course)
    """Of a sender without one."""


class MulticastReceiver:
    """Datagrams are read as they come and wait in a bounded queue for the subscribers."""

    def __init__(
        self,
        wanted: Wanted,
        inlet: Inlet,
        largest: int,
        listen: Callable[[Group], Listener],
        leave: Callable[[Group], None],
        torn_down: Callable[[], bool] = lambda: False,
    ) -> None:
        """``torn_down`` is true if the whole event loop ends, without the topology being closed first."""
        self.properties: Mapping[str, str] = {}
        self._topic = topic_hash(wanted.topic.path)
        self._inlet = inlet
        self._largest = largest
        self._listen = listen
        self._leave = leave
        self._torn_down = torn_down
        self._closing = False
        self._latest_stamp = wanted.latest_stamp
        self._links: dict[int | None, Link] = {}
        self._strangers: dict[int, Link] = {}
        self._groups: dict[Group, set[str]] = {}
        self._queue: deque[tuple[Link, Datagram | None, bytes | None]] = deque()
        """A message, or a beat without one. Without a datagram: forget what came from there before."""
        self._room = int(wanted.setting(QUEUE))
        self._drop_oldest = wanted.setting(OVERFLOW) == "oldest"
        self._filled = asyncio.Event()
        self._worker = asyncio.create_task(self._work(), name=f"dragoman multicast {wanted.topic}")

    async def connect(self, publisher: Endpoint) -> None:
        sender = _sender_of(publisher)
        if sender in self._links and self._links[sender].origin == publisher.id:
            return
        more = publisher.more
        group = Group.of(more.get("multicast.group", ""), more.get("multicast.port", ""))
        signed = self._signed(publisher)
        if group not in self._groups:
            self._listen(group).add(self._topic, self._take)
        self._groups.setdefault(group, set()).add(publisher.id)
        assembly = Assembly(self._largest)
        self._links[sender] = Link(publisher.id, publisher.serializer or "", group, assembly, signed)

    def _signed(self, publisher: Endpoint) -> Signed | None:
        text = publisher.more.get("multicast.key")
        if text is None:
            return None
        since_ms = self._latest_stamp(publisher.framework)
        return Signed(read_key(text, publisher.id), SignedCourse(since_ms))

    async def disconnect(self, publisher: Endpoint) -> None:
        sender = _sender_of(publisher)
        link = self._links.pop(sender, None)
        if link is None:
            return
        if sender is None:
            self._strangers.clear()
        users = self._groups[link.group]
        users.discard(publisher.id)
        if not users:
            self._drop(link.group)

    def _drop(self, group: Group) -> None:
        del self._groups[group]
        self._listen(group).remove(self._topic, self._take)
        self._leave(group)

    async def close(self) -> None:
        self._closing = True
        for group in list(self._groups):
            self._drop(group)
        self._links.clear()
        self._strangers.clear()
        await end(self._worker)

    def _take(self, datagram: Datagram, sealed: Sealed | None) -> None:
        link = self._links.get(datagram.sender) or self._stranger(datagram.sender)
        if link is None or not self._believable(link, datagram, sealed):
            return
        if datagram.kind == DATA:
            message = link.assembly.add(datagram)
            if message is None:
                return
        elif datagram.kind == BEAT:
            message = None
        else:
            return
        queue = self._queue
        if len(queue) >= self._room and not self._make_room(message):
            return
        queue.append((link, datagram, message))
        if len(queue) == 1:
            self._filled.set()

    def _believable(self, link: Link, datagram: Datagram, sealed: Sealed | None) -> bool:
        """Whether its sender can have sent it. If not, it is counted, and nothing else happens."""
        metrics = self._inlet.metrics
        if link.signed is None:
            verdict = link.course.judge(datagram.sequence, time.monotonic())
        elif sealed is None:
            metrics.unsigned += 1
            return False
        elif not sealed.fits(link.signed.key, datagram.sender):
            verdict = Verdict.FORGED
        else:
            verdict = link.signed.course.judge(datagram.sequence, sealed.stamp_ms)
        if verdict is Verdict.FORGED:
            metrics.forged += 1
            return False
        if verdict is Verdict.STALE:
            metrics.stale += 1
            return False
        if verdict is Verdict.RESTART:
            metrics.forged += 1
            self._queue.append((link, None, None))
            self._filled.set()
        return True

    def _make_room(self, message: bytes | None) -> bool:
        """Whether there is room now. What a message that goes leaves is a gap, which is counted as loss."""
        dropped = self._queue.popleft()[2] if self._drop_oldest else message
        if dropped is not None:
            self._inlet.metrics.overflowed += 1
        return self._drop_oldest

    def _stranger(self, sender: int) -> Link | None:
        """Only a static entry without a sender's number lets in whoever speaks on the topic."""
        link, anyone = self._strangers.get(sender), self._links.get(None)
        if link is None and anyone is not None:
            if len(self._strangers) >= MOST_STRANGERS:
                del self._strangers[next(iter(self._strangers))]
            origin = f"{anyone.origin}/{sender:016x}"
            link = replace(anyone, origin=origin, assembly=Assembly(self._largest), course=Course())
            self._strangers[sender] = link
        return link

    def _is_ending(self) -> bool:
        return self._closing or self._torn_down()

    async def _work(self) -> None:
        ENDING.set(self._is_ending)
        queue, since_breather = self._queue, 0
        while True:
            while queue:
                link, datagram, message = queue.popleft()
                if datagram is None:
                    self._inlet.metrics.origins.pop(link.origin, None)
                elif message is None:
                    self._inlet.progress(link.origin, datagram.sequence)
                else:
                    await self._deliver(link, datagram, message)
                    await take_back_cancellation()
                since_breather += 1
                if since_breather >= BREATHER:
                    since_breather = 0
                    await asyncio.sleep(0)
            self._filled.clear()
            await self._filled.wait()

    async def _deliver(self, link: Link, datagram: Datagram, message: bytes) -> None:
        try:
            if message[:2] == NO_HEADERS:
                parcel = Parcel(message[2:], link.origin, datagram.sequence, datagram.sent_at)
            else:
                headers, payload = unwrap(message)
                parcel = parcel_of(payload, headers)._replace(
                    origin=link.origin, sequence=datagram.sequence, sent_at=datagram.sent_at
                )
            await self._inlet.deliver(parcel, link.serializer, once=True)
        except FrameError:
            self._inlet.metrics.invalid += 1
        except Exception as error:
            # Reading and handling are counted where they happen; a datagram cannot come again.
            log.debug("A multicast message was not handled.", exc_info=error)


def _sender_of(publisher: Endpoint) -> int | None:
    text = publisher.more.get("multicast.sender")
    if text is None:
        return None
    try:
        return int(text, 16)
    except ValueError as error:
        raise ConfigurationError(
            f"{text!r} is not a sender's number.", code="topology.multicast-sender", endpoint=publisher.id
        ) from error
