"""Sending a topic by UDP multicast."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping

from dragoman.core.errors import BrokerUnavailable, EncodeError
from dragoman.topology.admins.multicast.datagram import HEAD, beat, pieces, single, topic_hash
from dragoman.topology.admins.multicast.seals import SEAL_BYTES, Sealer
from dragoman.topology.admins.multicast.sockets import Group, Outgoing
from dragoman.topology.envelope import NO_HEADERS, wrap
from dragoman.topology.parcel import Parcel, extras_of
from dragoman.topology.topic import Topic

BREATHER = 64
"""After so many messages a sender lets the other tasks of its loop run."""
FEW_BEATS = 5
"""Beats that follow the last message quickly: its loss is noticed though some of them are lost too."""


class MulticastSender:
    """``closed`` is called when it closes."""

    def __init__(
        self,
        topic: Topic,
        group: Group,
        out: Outgoing,
        limits: tuple[int, int],
        channel: str,
        closed: Callable[[MulticastSender], None],
        sealer: Sealer | None = None,
    ) -> None:
        self.channel = channel
        self._topic = topic_hash(topic.path)
        self._group = group
        self._out = out
        self._size, self._largest = limits
        self._sealer = sealer
        if sealer is not None:
            self._size -= SEAL_BYTES
        self._sender = secrets.randbits(64)
        self._sequence = 0
        self._beats = FEW_BEATS
        self._since_breather = 0
        self._closed = closed
        self._bundle: list[bytes] = []
        self._bundled = 0
        self._loop = asyncio.get_running_loop()
        self.properties: Mapping[str, str] = {
            "multicast.group": group.address,
            "multicast.port": str(group.port),
            "multicast.sender": f"{self._sender:016x}",
        }
        if sealer is not None:
            self.properties = {**self.properties, "multicast.key": sealer.public}

    async def send(self, parcel: Parcel) -> None:
        extras = extras_of(parcel)
        message = wrap(extras, parcel.payload) if extras else NO_HEADERS + parcel.payload
        if len(message) > self._largest:
            raise EncodeError(
                f"The message has {len(message)} bytes, {self._largest} are allowed.",
                code="message.encode.too-large",
                next="Raise the option 'largest' in the admin's URL, or use a broker.",
            )
        # The number that receivers see is the transport's own, without the gaps that refused messages leave.
        self._sequence += 1
        head = (self._topic, self._sender, self._sequence, parcel.sent_at)
        if len(message) <= self._size - HEAD.size:
            await self._bundle_up(single(*head, message))
        else:
            await self._flush()
            for data in pieces(*head, message, self._size):
                await self._hand_over(data)
        self._beats = FEW_BEATS
        self._since_breather += 1
        if self._since_breather >= BREATHER:
            self._since_breather = 0
            await asyncio.sleep(0)

    async def _bundle_up(self, data: bytes) -> None:
        """Small messages of one turn of the loop go together: most of a datagram's cost is its own."""
        while self._bundle and self._bundled + len(data) > self._size:
            await self._flush()
        if not self._bundle:
            self._loop.call_soon(self._flush_soon)
        self._bundle.append(data)
        self._bundled += len(data)

    def _taken(self) -> bytes:
        data = b"".join(self._bundle)
        self._bundle.clear()
        self._bundled = 0
        return data

    async def _flush(self) -> None:
        if self._bundle:
            await self._hand_over(self._taken())

    def _flush_soon(self) -> None:
        """At the end of the turn. What the network does not take then is lost, and noticed as such."""
        if self._bundle:
            with contextlib.suppress(OSError):
                self._put(self._taken())

    async def _hand_over(self, data: bytes) -> None:
        while True:
            try:
                self._put(data)
                return
            except BlockingIOError:
                await self._out.room()
            except OSError as error:
                raise BrokerUnavailable(
                    f"The network does not take it: {error.strerror}.",
                    next="It is tried with the next message.",
                ) from error

    def beat(self, now: int, idle: bool) -> None:
        """Called a few times a second: tell the last number, if it is due."""
        self._flush_soon()
        if self._beats or idle:
            self._beats = max(0, self._beats - 1)
            # One that is lost here is as one lost on the way: there are more.
            with contextlib.suppress(OSError):
                self._put(beat(self._topic, self._sender, self._sequence, now))

    def _put(self, data: bytes) -> None:
        if self._sealer is not None:
            data = self._sealer(self._topic, self._sender, data)
        self._out.put(data, self._group)

    async def close(self) -> None:
        try:
            await self._flush()
        finally:
            self._closed(self)
