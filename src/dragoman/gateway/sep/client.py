"""A SEP client: many requests at once, over one session with one server."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

from dragoman.core.errors import BrokerUnavailable, ClientError, ReplyTimeout
from dragoman.gateway.collecting import CollectingClient, response_in
from dragoman.gateway.envelope.derivation import collection
from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.envelope.wire import to_json
from dragoman.gateway.sep.assembling import Assembly
from dragoman.gateway.sep.datagram import (
    LAST_NUMBER,
    SESSION,
    Datagram,
    Type,
    init_head,
    nonce_of,
    read_datagram,
    short_head,
)
from dragoman.gateway.sep.frames import (
    Ack,
    Close,
    Cookie,
    Frame,
    MalformedFrames,
    Part,
    Refusal,
    Refuse,
    Time,
    pack_frame,
    read_frames,
)
from dragoman.gateway.sep.keys import BadSeal, Opening, PublicKey, SessionKeys, Suite
from dragoman.gateway.sep.limits import SepLimits
from dragoman.gateway.sep.message import (
    MOST_PARTS,
    Damaged,
    Operation,
    Reply,
    pack_request,
    parts_in,
    parts_of,
    read_reply,
)
from dragoman.gateway.sep.packing import PAD, packed, padded, room_beside
from dragoman.gateway.sep.replay import NumberWindow
from dragoman.gateway.sep.retry import read_retry
from dragoman.gateway.sep.sending import Outgoing, RoundTrip

_SHORT_HEAD = 1 + SESSION + 4
_LATE = 0.025
"""Seconds after which parts of an answer are acknowledged in any case."""
_SILENT = 5
"""After so many tries in a row without a sign of life, a new session is opened."""
_UNHEARD = 8
"""The same for a session that the server has not answered yet, whose request it may have nevertheless."""
_MOST_RETRIES = 4
"""RETRYs that are obeyed in one session. A server needs one or two; more are somebody's copies."""
_REASONS = {
    Refusal.TOO_LARGE: "It is larger than the server takes.",
    Refusal.TOO_MANY: "The server has too much to do at the moment.",
    Refusal.DAMAGED: "It did not arrive as it was sent.",
}


class _Link:
    """One session from the client's side. Its keys are complete once the server was heard."""

    def __init__(self, server: PublicKey) -> None:
        self.id = secrets.token_bytes(SESSION)
        self.opening = Opening(server, self.id)
        self.keys: SessionKeys | None = None
        self.server_public = b""
        self.number = 0
        self.early_number = 0
        self.window = NumberWindow()
        self.cookie = b""
        """For this session, from the server's RETRY."""
        self.init_sent = 0.0
        self.silent_tries = 0
        self.retries: set[bytes] = set()
        """Nonces of the RETRYs that were obeyed."""


class _Request:
    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.assembly: Assembly | None = None
        self.outgoing: Outgoing | None = None
        self.asked = time.monotonic()
        self.late: asyncio.TimerHandle | None = None


class SepClient(CollectingClient, asyncio.DatagramProtocol):
    """``key`` is the server's public key, which the client has to know beforehand.

    async with SepClient("gateway.example", 8090, PublicKey.from_text(text)) as client:
        reply = await client.request(Operation.DROP_OFF, envelope)

    A request is carried out at least once when its server is restarted meanwhile, else exactly once.
    """

    def __init__(
        self,
        host: str,
        port: int,
        key: PublicKey,
        *,
        limits: SepLimits | None = None,
    ) -> None:
        self._place = host, port
        self._key = key
        self._limits = limits or SepLimits()
        self._room = asyncio.Semaphore(self._limits.streams)
        self._transport: asyncio.DatagramTransport | None = None
        self._link: _Link | None = None
        self._clock_off = 0
        self._next_stream = 0
        self._requests: dict[int, _Request] = {}
        self._round_trip = RoundTrip()
        self.counts: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_datagram_endpoint(lambda: self, remote_addr=self._place)
        except OSError as error:
            raise BrokerUnavailable(
                f"{self._place[0]} cannot be reached: {error.strerror or error}.", next="Check its name."
            ) from error
        return self

    async def __aexit__(self, *_: object) -> None:
        for request in list(self._requests.values()):
            self._fail(
                request, ClientError("The client was closed before the answer came.", code="sep.closed")
            )
        if self._link is not None and self._link.keys is not None:
            self._transmit([Close()])
        if self._transport is not None:
            self._transport.close()

    async def request(self, operation: Operation, body: bytes, timeout: float = 30.0) -> Reply:
        """Raises ``ReplyTimeout``, and ``ClientError`` if the server does not take the request."""
        if self._transport is None or self._transport.is_closing():
            raise ClientError("The client is not open.", code="sep.closed", next="Use it in 'async with'.")
        message = pack_request(operation, body)
        if len(message) > self._limits.message:
            raise ClientError(
                f"The request has {len(body):,} bytes.", code="sep.too-large", next="Send less at once."
            )
        try:
            async with asyncio.timeout(timeout), self._room:
                return await self._ask(message)
        except TimeoutError:
            raise ReplyTimeout(
                f"No answer came in {timeout:g} seconds.",
                next="Ask again: the server may have taken the request.",
                server=f"{self._place[0]}:{self._place[1]}",
            ) from None

    async def collect(
        self,
        asked: Envelope,
        *,
        timeout: float = 30.0,
        resource: str = "service.collection",
        token: str | None = None,
        collector: str | None = None,
    ) -> Envelope | None:
        """The response to a request; ``None`` if there is none yet.

        Repeat it if it fails: until you ``confirm`` the response, the same collector gets it again. Raises as
        ``request`` does, and ``ClientError`` if the gateway refuses the question.
        """
        wanted = collection(asked, resource=resource, token=token, collector=collector)
        return response_in(*await self._send(wanted, timeout))

    async def _send(self, wanted: Envelope, timeout: float) -> tuple[int, bytes]:
        return await self.request(Operation.COLLECT, to_json(wanted), timeout)

    async def _ask(self, message: bytes) -> Reply:
        request = _Request(self._next_stream)
        self._next_stream += 1
        self._requests[request.stream] = request
        request.outgoing = Outgoing(
            request.stream, parts_of(message), self._transmit, self._round_trip, self._in_vain, probe=True
        )
        try:
            return await request.answer
        finally:
            self._end(request)

    def _end(self, request: _Request) -> None:
        self._requests.pop(request.stream, None)
        if request.outgoing is not None:
            request.outgoing.close()
        if request.late is not None:
            request.late.cancel()

    def _fail(self, request: _Request, error: Exception) -> None:
        if not request.answer.done():
            request.answer.set_exception(error)
        self._end(request)

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def error_received(self, exc: Exception) -> None:
        """Nobody listens there at the moment. What is not answered is sent again."""
        self.counts["unreachable"] += 1

    def datagram_received(self, data: bytes, addr: Any) -> None:
        datagram, link = read_datagram(data), self._link
        if datagram is None or link is None or datagram.session != link.id:
            self.counts["foreign"] += 1
            return
        try:
            if datagram.type is Type.RETRY:
                self._retry(link, datagram)
                return
            frames = self._opened(link, datagram)
        except (BadSeal, MalformedFrames):
            self.counts["refused"] += 1
            return
        if frames is None:
            self.counts["repeated"] += 1
            return
        link.silent_tries = 0
        for frame in frames:
            self._take(frame)
            if isinstance(frame, Cookie) and datagram.type is Type.DATA:
                # The server wants to see that we can be reached where we are now.
                self._transmit([frame])
        if not link.number:
            # There are requests that the server carries out only when it knows that we are there.
            self._seal(link, PAD)

    def _opened(self, link: _Link, datagram: Datagram) -> list[Frame] | None:
        keys, public = link.keys, link.server_public
        if datagram.type is Type.ACCEPT and keys is None:
            keys, public = link.opening.accepted(datagram.public), datagram.public
        if keys is None or datagram.type not in (Type.ACCEPT, Type.DATA):
            raise BadSeal
        inside = keys.from_server.open(nonce_of(datagram.number), datagram.sealed, datagram.head)
        link.keys, link.server_public = keys, public
        return read_frames(inside) if link.window.take(datagram.number) else None

    def _retry(self, link: _Link, datagram: Datagram) -> None:
        if link.keys is not None or datagram.nonce in link.retries or len(link.retries) >= _MOST_RETRIES:
            return
        retry = read_retry(link.opening.first.retry.open(datagram.nonce, datagram.sealed, datagram.head))
        if retry.cookie == link.cookie and not self._off_by_much(retry.milliseconds):
            return
        link.retries.add(datagram.nonce)
        self.counts["retries"] += 1
        link.cookie = retry.cookie
        self._clock_off = retry.milliseconds - int(time.time() * 1000)
        link.init_sent = 0.0
        self._send_again()

    def _off_by_much(self, server: int) -> bool:
        return abs(server - self._milliseconds()) > 1000

    def _milliseconds(self) -> int:
        return int(time.time() * 1000) + self._clock_off

    def _take(self, frame: Frame) -> None:
        match frame:
            case Part():
                self._part(frame)
            case Ack(stream):
                request = self._requests.get(stream)
                if request is not None and request.outgoing is not None:
                    request.outgoing.acknowledge(frame)
            case Refuse(stream, reason):
                self._refused(stream, reason)
            case Close():
                self._reopen()
            case _:
                pass

    def _part(self, part: Part) -> None:
        request = self._requests.get(part.stream)
        if request is None:
            # The answer came before, and its acknowledgement was lost; or nobody waits for it any more.
            if part.of <= MOST_PARTS:
                self._transmit([_complete(part)])
            return
        if request.assembly is None:
            if part.of > parts_in(self._limits.message):
                self._fail(request, ClientError("The answer is too large.", code="sep.too-large"))
                return
            request.assembly = Assembly(part.stream, part.of)
        assembly = request.assembly
        assembly.add(part)
        if assembly.is_whole():
            if not self._round_trip.smoothed:
                # Too long by the time the server thought, but better than nothing.
                self._round_trip.measured(time.monotonic() - request.asked)
            self._transmit([assembly.acknowledgement()])
            self._answered(request, assembly.message())
        elif assembly.wants_acknowledgement() or part.at == 0:
            self._transmit([assembly.acknowledgement()])
        elif request.late is None:
            request.late = asyncio.get_running_loop().call_later(_LATE, self._acknowledge_late, request)

    def _acknowledge_late(self, request: _Request) -> None:
        request.late = None
        if request.assembly is not None:
            self._transmit([request.assembly.acknowledgement()])

    def _answered(self, request: _Request, message: bytes) -> None:
        if request.answer.done():
            return
        try:
            request.answer.set_result(read_reply(message))
        except Damaged:
            request.answer.set_exception(
                ClientError("The answer is damaged.", code="sep.damaged", next="Ask again.")
            )
        self._end(request)

    def _refused(self, stream: int, reason: int) -> None:
        request = self._requests.get(stream)
        if request is not None:
            why = _REASONS.get(reason, f"Reason {reason}.")
            self._fail(request, ClientError(f"The request was refused. {why}", code="sep.refused"))

    def _in_vain(self, _: int) -> None:
        """A try brought nothing. After several, the server has forgotten us: open a new session."""
        link = self._link
        if link is None:
            return
        link.silent_tries += 1
        most = _UNHEARD if link.keys is None else _SILENT
        if link.silent_tries > most * max(1, len(self._requests)):
            self._reopen()

    def _reopen(self) -> None:
        """The session is over. What is not answered goes to a new one, from its beginning."""
        self.counts["reopened"] += 1
        self._link = None
        asyncio.get_running_loop().call_soon(self._send_again)

    def _send_again(self) -> None:
        for request in list(self._requests.values()):
            request.assembly = None
            if request.outgoing is not None:
                request.outgoing.restart()

    def _transmit(self, frames: Sequence[Frame]) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._link is not None and max(self._link.number, self._link.early_number) >= LAST_NUMBER:
            self._reopen()
        if self._link is None:
            self._link = _Link(self._key)
        link = self._link
        if link.keys is None:
            self._transmit_early(link, list(frames))
            return
        for inside in packed(frames, room_beside(_SHORT_HEAD)):
            self._seal(link, inside)

    def _seal(self, link: _Link, inside: bytes) -> None:
        if link.keys is None or self._transport is None or self._transport.is_closing():
            return
        head = short_head(Type.DATA, link.id, link.number)
        sealed = link.keys.from_client.seal(nonce_of(link.number), inside, head)
        link.number += 1
        self._transport.sendto(head + sealed)

    def _transmit_early(self, link: _Link, frames: list[Frame]) -> None:
        """Before the server was heard: an INIT, unless one is under way, and the rest behind it."""
        assert self._transport is not None
        early = link.opening.first.early
        now = time.monotonic()
        if not link.init_sent or now - link.init_sent > self._round_trip.wait / 2:
            link.init_sent = now
            carried = frames.pop(0) if link.opening.suite is Suite.X25519 and frames else None
            head = init_head(
                link.id,
                link.early_number,
                link.opening.suite,
                link.opening.public,
                link.opening.ciphertext,
                link.cookie,
            )
            inside = pack_frame(Time(self._milliseconds())) + (pack_frame(carried) if carried else b"")
            sealed = early.seal(nonce_of(link.early_number), padded(inside, len(head)), head)
            link.early_number += 1
            self._transport.sendto(head + sealed)
        for inside in packed(frames, room_beside(_SHORT_HEAD)):
            head = short_head(Type.EARLY, link.id, link.early_number)
            sealed = early.seal(nonce_of(link.early_number), inside, head)
            link.early_number += 1
            self._transport.sendto(head + sealed)


def _complete(part: Part) -> Ack:
    bitmap = bytearray(b"\xff" * ((part.of + 7) // 8))
    if part.of % 8:
        bitmap[-1] = (1 << part.of % 8) - 1
    return Ack(part.stream, part.of, bytes(bitmap))
