"""A session as its server sees it: one client, its requests and their replies."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
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
    FIRST_FLIGHT,
    PART_BYTES,
    Damaged,
    Operation,
    parts_in,
    parts_of,
    read_request,
)
from dragoman.gateway.sep.packing import packed, room_beside
from dragoman.gateway.sep.replay import Finished, NumberWindow
from dragoman.gateway.sep.sending import Outgoing, RoundTrip

Address = tuple[str, int]

_LATE = 0.025
"""Seconds after which a request without an answer is acknowledged by itself."""
_SHORT_HEAD = 1 + SESSION + 4


class Home(Protocol):
    """What a session needs of its server."""

    limits: SepLimits
    counts: Counter[str]
    assembling: int

    @property
    def busy(self) -> bool: ...
    def send(self, data: bytes, address: Address) -> None: ...
    def cookie_for(self, address: Address, session: bytes) -> bytes: ...
    def cookie_good(self, address: Address, session: bytes, cookie: bytes) -> bool: ...
    def forget(self, session: Session) -> None: ...
    def proved(self) -> None: ...
    def handle(
        self, operation: Operation, body: bytes, address: Address, done: Callable[[bytes], None]
    ) -> asyncio.Task[None]: ...


class _Stream:
    """One request: first its parts, then the work, then the reply's parts."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self.task: asyncio.Task[None] | None = None
        self.reply: Outgoing | None = None
        self.late: asyncio.TimerHandle | None = None
        self.until = float("inf")
        self.begun = time.monotonic()
        self.waits = True
        """It is not whole, or its client has not shown yet that it is there now."""

    @property
    def held(self) -> int:
        """Bytes that wait for more to come. A small part costs about as much as a full one."""
        return self.assembly.parts * PART_BYTES if self.waits else 0

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
        host: str,
        proven: bool,
    ) -> None:
        self.id = opening.session
        self.host = host
        """Whose session it is when sessions are counted."""
        self._home = home
        self._client = opening.public
        self._first = first
        self._public = public
        self._keys = keys
        self._address = address
        self._proven = proven
        """The client does not count as one whose address is unknown."""
        self._sure = False
        """The client was heard to know the session's keys: it is there, now, at its address."""
        self._moved = False
        """The client was heard from another host, and has not shown yet that it can be reached there."""
        self._early, self._later = NumberWindow(), NumberWindow()
        self._early.take(opening.number)
        self._number = 0
        self._received = 0
        self._sent = 0
        self._last = time.monotonic()
        self._streams: dict[int, _Stream] = {}
        self._finished = Finished()
        self._refused: dict[int, int] = {}
        """Why streams were refused that had begun: what comes of them still is not a new beginning."""
        self._round_trip = RoundTrip()
        self._cookie_due = False
        self._closed = False

    @property
    def silent(self) -> float:
        return time.monotonic() - self._last

    @property
    def requests(self) -> int:
        """Those that came, and whose replies have not arrived."""
        return len(self._streams)

    @property
    def works(self) -> bool:
        """Whether a request is carried out. If the session were closed, its client would ask again."""
        return any(stream.task is not None and not stream.task.done() for stream in self._streams.values())

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
        if datagram.type is not Type.DATA:
            return
        if not self._sure:
            self._sure = True
            self._carry_out_waiting()
        if not self._proven:
            self._proven = True
            self._home.proved()
        if address != self._address and datagram.number == self._later.highest:
            self._follow(address, size)
        if self._moved:
            self._cookie_due = True
            self._send([])

    def _follow(self, address: Address, size: int) -> None:
        """To another port at once. Another host may be somebody who did not ask: first it gets a cookie."""
        if address[0] != self._address[0]:
            self._moved = True
            self._received, self._sent = size, 0
        self._address = address

    def take(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            if self._closed:
                return
            match frame:
                case Part():
                    self._part(frame)
                case Ack():
                    self._acknowledged(frame)
                case Cookie(cookie):
                    good = self._moved and self._home.cookie_good(self._address, self.id, cookie)
                    self._moved = self._moved and not good
                case Close():
                    self.close()
                case _:
                    pass

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for stream in self._streams.values():
            self._home.assembling -= stream.held
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
            if reason := self._refused.get(part.stream):
                self._send([Refuse(part.stream, reason)])
                return
            stream = self._begin(part)
            if stream is None:
                return
        if stream.assembly.is_whole():
            self._send([stream.assembly.acknowledgement()])
            return
        before = stream.held
        stream.assembly.add(part)
        self._home.assembling += stream.held - before
        if stream.assembly.is_whole() and self._request(part.stream, stream):
            return
        if self._home.assembling > self._home.limits.assembling:
            self._refuse(part.stream, Refusal.TOO_MANY)
        elif stream.assembly.is_whole() or stream.assembly.wants_acknowledgement():
            self._send([stream.assembly.acknowledgement()])
        elif stream.late is None:
            self._acknowledge_later(stream)

    def _begin(self, part: Part) -> _Stream | None:
        limits = self._home.limits
        if part.of > parts_in(limits.message):
            self._refuse(part.stream, Refusal.TOO_LARGE)
            return None
        if len(self._streams) >= limits.streams or self._home.busy:
            self._refuse(part.stream, Refusal.TOO_MANY)
            return None
        stream = self._streams[part.stream] = _Stream(Assembly(part.stream, part.of))
        return stream

    def _refuse(self, number: int, reason: int) -> None:
        """The client is told, and told again whenever it still sends parts of it."""
        self._home.counts["refused streams"] += 1
        stream = self._streams.pop(number, None)
        if stream is not None:
            self._home.assembling -= stream.held
            stream.close()
            self._refused[number] = reason
            if len(self._refused) > self._home.limits.streams:
                del self._refused[next(iter(self._refused))]
        self._send([Refuse(number, reason)])

    def drop_stalled(self) -> None:
        """Messages that do not become whole do not stay for ever."""
        oldest = time.monotonic() - self._home.limits.idle
        for number, stream in list(self._streams.items()):
            if stream.begun < oldest and stream.waits:
                self._refuse(number, Refusal.TOO_MANY)

    def _acknowledge_later(self, stream: _Stream) -> None:
        def late() -> None:
            stream.late = None
            if stream.reply is None and not self._closed:
                self._send([stream.assembly.acknowledgement()])

        stream.late = asyncio.get_running_loop().call_later(_LATE, late)

    def _carry_out_waiting(self) -> None:
        for number, stream in list(self._streams.items()):
            if stream.waits and stream.assembly.is_whole():
                self._request(number, stream)

    def _request(self, number: int, stream: _Stream) -> bool:
        """Carry it out. ``False`` if it waits until the client was heard to know the session's keys."""
        try:
            operation, body = read_request(stream.assembly.message())
        except Damaged:
            self._refuse(number, Refusal.DAMAGED)
            return True
        if not self._sure and operation not in FIRST_FLIGHT:
            return False
        self._home.assembling -= stream.held
        stream.waits = False
        if stream.late is None:
            self._acknowledge_later(stream)
        stream.task = self._home.handle(
            operation, body, self._address, lambda message: self._reply(number, stream, message)
        )
        return True

    def _reply(self, number: int, stream: _Stream, message: bytes) -> None:
        if self._closed:
            return
        if stream.late is not None:
            stream.late.cancel()
        stream.until = time.monotonic() + self._home.limits.patience
        stream.reply = Outgoing(
            number,
            parts_of(message),
            self._send,
            self._round_trip,
            lambda _: self._in_vain(number, stream),
            probe=False,
        )
        if number not in self._streams:
            # Sending it was the last that this session had numbers for.
            stream.reply.close()

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
            self._finished.add(number)

    def _send(self, frames: Sequence[Frame]) -> None:
        if self._closed:
            return
        head = _SHORT_HEAD if self._sure else _SHORT_HEAD + KEY
        if self._cookie_due:
            frames = [*frames, Cookie(self._home.cookie_for(self._address, self.id))]
        for inside in packed(frames, room_beside(head)):
            if self._number >= LAST_NUMBER:
                self.close()
                return
            size = head + len(inside) + 16
            if (self._moved or not self._sure) and self._sent + size > self._received:
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
