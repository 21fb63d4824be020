"""Receiving a topic by UDP multicast."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dragoman.client.cancellation import ENDING, take_back_cancellation
from dragoman.core.ending import end
from dragoman.core.errors import ConfigurationError, FrameError
from dragoman.topology.admin import Inlet, Wanted
from dragoman.topology.admins.multicast.assembly import Assembly
from dragoman.topology.admins.multicast.course import Courses, SignedCourse, Source, Verdict
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
    """What a sender with an identity has signed. Nothing else of it counts."""

    key: Ed25519PublicKey
    course: SignedCourse
    assembly: Assembly


@dataclass(frozen=True, slots=True)
class Link:
    """One publisher. A static one without a sender's number stands for all senders of its topic."""

    origin: str
    serializer: str
    group: Group
    speaker: Signed | Courses


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
        self._queue: deque[tuple[str, str, Datagram | None, bytes | None]] = deque()
        """Serializer, origin in the metrics, datagram, and its message, which a beat has not. Without a
        datagram, the origin is to be forgotten."""
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
        link = Link(publisher.id, publisher.serializer or "", group, self._speaker(publisher))
        if group not in self._groups:
            self._listen(group).add(self._topic, self._take)
        self._groups.setdefault(group, set()).add(publisher.id)
        self._links[sender] = link

    def _speaker(self, publisher: Endpoint) -> Signed | Courses:
        text = publisher.more.get("multicast.key")
        if text is None:
            return self._courses(publisher.id)
        since_ms = self._latest_stamp(publisher.framework)
        return Signed(read_key(text, publisher.id), SignedCourse(since_ms), Assembly(self._largest))

    def _courses(self, origin: str) -> Courses:
        return Courses(origin, self._largest, self._inlet.metrics, self._forget)

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

    def _take(self, datagram: Datagram, sealed: Sealed | None, source: Source) -> None:
        link = self._links.get(datagram.sender) or self._stranger(datagram.sender)
        if link is None or datagram.kind not in (DATA, BEAT):
            return
        speaker = link.speaker
        if isinstance(speaker, Signed):
            if self._has_signed(speaker, datagram, sealed):
                message = speaker.assembly.add(datagram) if datagram.kind == DATA else None
                self._put(link.serializer, link.origin, datagram, message)
            return
        course = speaker.follow(datagram, source, time.monotonic())
        message = course.assembly.add(datagram) if datagram.kind == DATA else None
        if not course.believed:
            course.hold(datagram, message)
            return
        while course.held:
            self._put(link.serializer, course.origin, *course.held.popleft())
        self._put(link.serializer, course.origin, datagram, message)

    def _has_signed(self, signed: Signed, datagram: Datagram, sealed: Sealed | None) -> bool:
        """Whether its sender has sent it, not long ago. If not, it is counted, and nothing else happens."""
        metrics = self._inlet.metrics
        if sealed is None:
            metrics.unsigned += 1
            return False
        if not sealed.fits(signed.key, datagram.sender):
            verdict = Verdict.FORGED
        else:
            verdict = signed.course.judge(datagram.sequence, sealed.stamp_ms)
        metrics.forged += verdict is Verdict.FORGED
        metrics.stale += verdict is Verdict.STALE
        return verdict is Verdict.TAKE

    def _put(self, serializer: str, origin: str, datagram: Datagram, message: bytes | None) -> None:
        """Queue a message for the subscribers, or a beat. A piece that completes no message is neither."""
        if message is None and datagram.kind == DATA:
            return
        if len(self._queue) < self._room or self._make_room(message):
            self._append(serializer, origin, datagram, message)

    def _append(self, serializer: str, origin: str, datagram: Datagram | None, message: bytes | None) -> None:
        self._queue.append((serializer, origin, datagram, message))
        if len(self._queue) == 1:
            self._filled.set()

    def _forget(self, origin: str) -> None:
        """After what is queued: the next under this name is of another course."""
        self._append("", origin, None, None)

    def _make_room(self, message: bytes | None) -> bool:
        """Whether there is room now. What a message that goes leaves is a gap, which is counted as loss."""
        dropped = self._queue.popleft()[3] if self._drop_oldest else message
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
            link = replace(anyone, origin=origin, speaker=self._courses(origin))
            self._strangers[sender] = link
        return link

    def _is_ending(self) -> bool:
        return self._closing or self._torn_down()

    async def _work(self) -> None:
        ENDING.set(self._is_ending)
        queue, since_breather = self._queue, 0
        while True:
            while queue:
                serializer, origin, datagram, message = queue.popleft()
                if datagram is None:
                    self._inlet.metrics.origins.pop(origin, None)
                elif message is None:
                    self._inlet.progress(origin, datagram.sequence)
                else:
                    await self._deliver(serializer, origin, datagram, message)
                    await take_back_cancellation()
                since_breather += 1
                if since_breather >= BREATHER:
                    since_breather = 0
                    await asyncio.sleep(0)
            self._filled.clear()
            await self._filled.wait()

    async def _deliver(self, serializer: str, origin: str, datagram: Datagram, message: bytes) -> None:
        try:
            if message[:2] == NO_HEADERS:
                parcel = Parcel(message[2:], origin, datagram.sequence, datagram.sent_at)
            else:
                headers, payload = unwrap(message)
                parcel = parcel_of(payload, headers)._replace(
                    origin=origin, sequence=datagram.sequence, sent_at=datagram.sent_at
                )
            await self._inlet.deliver(parcel, serializer, once=True)
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
