"""A session as its server sees it: one client, its requests and their replies."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Protocol

from dragoman.gateway.sep.assembling import Assembly
from dragoman.gateway.sep.datagram import (
    KEY,
    LAST_NUMBER,
    SESSION,
    Datagram,
    Type,
    accept_head,
    nonce_of,
    short_head,
)
from dragoman.gateway.sep.frames import (
    Ack,
    Close,
    Cookie,
    Frame,
    Part,
    Refusal,
    Refuse,
    read_frames,
)
from dragoman.gateway.sep.keys import FirstKeys, SessionKeys
from dragoman.gateway.sep.limits import SepLimits
from dragoman.gateway.sep.message import (
    PART_BYTES,
    Damaged,
    Operation,
    Reply,
    pack_reply,
    parts_of,
    read_request,
)
from dragoman.gateway.sep.packing import packed, room_beside
from dragoman.gateway.sep.replay import NumberWindow
from dragoman.gateway.sep.sending import Outgoing, RoundTrip

Address = tuple[str, int]

_LATE = 0.025
"""Seconds after which a request without an answer is acknowledged by itself."""
_SHORT_HEAD = 1 + SESSION + 4
_REMEMBERED = 1024
"""Finished streams of a session that are known, so that late copies of their parts are not new requests."""


class Home(Protocol):
    """What a session needs of its server."""

    limits: SepLimits
    counts: Counter[str]
    assembling: int

    def send(self, data: bytes, address: Address) -> None: ...
    def cookie_for(self, address: Address) -> bytes: ...
    def forget(self, session: Session) -> None: ...
    def proved(self) -> None: ...
    def handle(
        self, operation: Operation, body: bytes, address: Address, done: Callable[[Reply], None]
    ) -> asyncio.Task[None]: ...


class _Stream:
    """One request: first its parts, then the work, then the reply's parts."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self.task: asyncio.Task[None] | None = None
        self.reply: Outgoing | None = None
        self.late: asyncio.TimerHandle | None = None
        self.until = float("inf")

    def close(self) -> None:
        if self.reply is not None:
            self.reply.close()
        if self.late is not None:
            self.late.cancel()


class Session:
    def __init__(
        self,
        home: Home,
        opening: Datagram,
        first: FirstKeys,
        public: bytes,
        keys: SessionKeys,
        address: Address,
        proven: bool,
    ) -> None:
        self.id = opening.session
        self._home = home
        self._client = opening.public
        self._first = first
        self._public = public
        self._keys = keys
        self._address = address
        self._proven = proven
        self._sure = False
        """The client was heard to know the session's keys."""
        self._early, self._later = NumberWindow(), NumberWindow()
        self._early.take(opening.number)
        self._number = 0
        self._received = 0
        self._sent = 0
        self._last = time.monotonic()
        self._streams: dict[int, _Stream] = {}
        self._finished: deque[int] = deque(maxlen=_REMEMBERED)
        self._round_trip = RoundTrip()
        self._cookie_due = True
        self._closed = False

    @property
    def silent(self) -> float:
        return time.monotonic() - self._last

    def open(self, datagram: Datagram) -> list[Frame] | None:
        """The frames inside; ``None`` for a copy. Raises ``BadSeal`` and ``MalformedFrames``."""
        early = datagram.type is not Type.DATA
        if datagram.type is Type.INIT and datagram.public != self._client:
            return None
        sealer = self._first.early if early else self._keys.from_client
        inside = sealer.open(nonce_of(datagram.number), datagram.sealed, datagram.head)
        if not (self._early if early else self._later).take(datagram.number):
            return None
        return read_frames(inside)

    def heard(self, datagram: Datagram, size: int, address: Address) -> None:
        """A datagram has come. A client that moves is followed, once it is known to have the keys."""
        self._last = time.monotonic()
        self._received += size
        if datagram.type is Type.DATA:
            self._sure = True
            self._address = address
            if not self._proven:
                self._proven = True
                self._home.proved()

    def take(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            match frame:
                case Part():
                    self._part(frame)
                case Ack():
                    self._acknowledged(frame)
                case Close():
                    self.close()
                case _:
                    pass

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for stream in self._streams.values():
            self._home.assembling -= 0 if stream.assembly.is_whole() else stream.assembly.size
            stream.close()
        self._streams.clear()
        if not self._proven:
            self._home.proved()
        self._home.forget(self)

    def _part(self, part: Part) -> None:
        stream = self._streams.get(part.stream)
        if stream is None:
            if part.stream in self._finished:
                return
            stream = self._begin(part)
            if stream is None:
                return
        if stream.assembly.is_whole():
            if stream.reply is None:
                self._send([stream.assembly.acknowledgement()])
            return
        if stream.assembly.add(part):
            self._home.assembling += len(part.data)
        if stream.assembly.is_whole():
            self._home.assembling -= stream.assembly.size
            self._request(part.stream, stream)
        elif stream.assembly.wants_acknowledgement():
            self._send([stream.assembly.acknowledgement()])
        elif stream.late is None:
            self._acknowledge_later(stream)

    def _begin(self, part: Part) -> _Stream | None:
        limits = self._home.limits
        reason = 0
        if part.of * PART_BYTES > limits.message + PART_BYTES:
            reason = Refusal.TOO_LARGE
        elif (
            len(self._streams) >= limits.streams
            or self._home.assembling + part.of * PART_BYTES > limits.assembling
        ):
            reason = Refusal.TOO_MANY
        if reason:
            self._home.counts["refused streams"] += 1
            self._send([Refuse(part.stream, reason)])
            return None
        stream = self._streams[part.stream] = _Stream(Assembly(part.stream, part.of))
        return stream

    def _acknowledge_later(self, stream: _Stream) -> None:
        def late() -> None:
            stream.late = None
            if stream.reply is None and not self._closed:
                self._send([stream.assembly.acknowledgement()])

        stream.late = asyncio.get_running_loop().call_later(_LATE, late)

    def _request(self, number: int, stream: _Stream) -> None:
        try:
            operation, body = read_request(stream.assembly.message())
        except Damaged:
            self._finish(number)
            self._send([Refuse(number, Refusal.DAMAGED)])
            return
        if stream.late is None:
            self._acknowledge_later(stream)
        stream.task = self._home.handle(
            operation, body, self._address, lambda reply: self._reply(number, stream, reply)
        )

    def _reply(self, number: int, stream: _Stream, reply: Reply) -> None:
        if self._closed:
            return
        if stream.late is not None:
            stream.late.cancel()
        stream.until = time.monotonic() + self._home.limits.patience
        stream.reply = Outgoing(
            number,
            parts_of(pack_reply(reply)),
            self._send,
            self._round_trip,
            lambda _: self._in_vain(number, stream),
            probe=False,
        )

    def _in_vain(self, number: int, stream: _Stream) -> None:
        if time.monotonic() > stream.until:
            self._home.counts["replies given up"] += 1
            self._finish(number)

    def _acknowledged(self, ack: Ack) -> None:
        stream = self._streams.get(ack.stream)
        if stream is None or stream.reply is None:
            return
        stream.reply.acknowledge(ack)
        if stream.reply.acknowledged:
            self._home.counts["replies"] += 1
            self._finish(ack.stream)

    def _finish(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is not None:
            stream.close()
            self._finished.append(number)

    def _send(self, frames: Sequence[Frame]) -> None:
        head = _SHORT_HEAD if self._sure else _SHORT_HEAD + KEY
        if self._cookie_due:
            frames = [*frames, Cookie(self._home.cookie_for(self._address))]
        for inside in packed(frames, room_beside(head)):
            if self._number >= LAST_NUMBER:
                self.close()
                return
            size = head + len(inside) + 16
            if not self._proven and self._sent + size > self._received:
                # It goes out when the client has proved where it is, or with the next try.
                self._home.counts["held back"] += 1
                return
            self._seal(inside)
            self._sent += size
            self._cookie_due = False

    def _seal(self, inside: bytes) -> None:
        if self._sure:
            head = short_head(Type.DATA, self.id, self._number)
        else:
            head = accept_head(self.id, self._number, self._public)
        sealed = self._keys.from_server.seal(nonce_of(self._number), inside, head)
        self._number += 1
        self._home.send(head + sealed, self._address)
