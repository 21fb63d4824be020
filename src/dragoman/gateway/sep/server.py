"""A SEP server: sessions of many clients on one UDP port."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any, Self

from dragoman.core.ending import end
from dragoman.core.errors import ConfigurationError, NotNow
from dragoman.gateway.rates import Rate, RateLimit
from dragoman.gateway.sep.cookies import Cookies, for_moving, for_opening
from dragoman.gateway.sep.datagram import (
    MAX_DATAGRAM,
    NONCE,
    Datagram,
    Type,
    nonce_of,
    read_datagram,
    retry_head,
)
from dragoman.gateway.sep.frames import Frame, MalformedFrames, Time, read_frames
from dragoman.gateway.sep.hosts import Hosts, host_of
from dragoman.gateway.sep.keys import BadSeal, FirstKeys, ServerKey, accept
from dragoman.gateway.sep.limits import SepLimits
from dragoman.gateway.sep.message import Operation, Reply, pack_reply
from dragoman.gateway.sep.replay import Openings
from dragoman.gateway.sep.retry import Retry, pack_retry
from dragoman.gateway.sep.session import Address, Session

log = logging.getLogger("dragoman.gateway.sep")

Handler = Callable[[Operation, bytes, Address], Awaitable[Reply]]

_SWEEP = 1.0
_GRACE = 10.0
"""Seconds that requests under way get when the server stops."""
_LOOKED_AT = 64
"""Silent sessions that are looked at for one that can give way."""
_BUFFER = 4 * 1024 * 1024
"""Bytes of datagrams that may come while the loop is busy. The system may allow less."""


class SepServer(asyncio.DatagramProtocol):
    """``handler`` is called once for each request that comes whole; its reply is sent until it has arrived.

        async with SepServer(handler, key, port=8090) as server: ...

    ``counts`` tells what became of datagrams and requests.
    """

    def __init__(
        self,
        handler: Handler,
        key: ServerKey,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        limits: SepLimits | None = None,
        cookie_secret: bytes = b"",
    ) -> None:
        self._handler = handler
        self._key = key
        self._wanted = host, port
        self.limits = limits or SepLimits()
        self.counts: Counter[str] = Counter()
        self.assembling = 0
        """Bytes of messages that are not whole yet."""
        self.unproven = 0
        """Sessions whose peer did not prove its address yet."""
        self._cookies = Cookies(self.limits.cookie, cookie_secret)
        self._openings = Openings(self.limits.window, self.limits.seen)
        self._by_all = _per_second(self.limits.openings)
        self._by_host = _per_second(self.limits.openings_per_host)
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        """The one that was silent longest comes first."""
        self._hosts = Hosts()
        self._transport: asyncio.DatagramTransport | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._gone = asyncio.Event()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_datagram_endpoint(lambda: self, local_addr=self._wanted)
        except (OSError, OverflowError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            raise ConfigurationError(
                f"SEP cannot listen on {self._wanted[0]}, port {self._wanted[1]}: {reason}.",
                next="Choose another port, or stop who uses it.",
            ) from error
        self._sweep()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Requests under way are finished first. Who then still waits asks again, here or elsewhere."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_GRACE)
        for session in list(self._sessions.values()):
            session.close()
        await end(*self._tasks)
        if self._transport is not None:
            self._transport.close()
            await self._gone.wait()

    @property
    def address(self) -> tuple[str, int]:
        assert self._transport is not None
        host, port = self._transport.get_extra_info("sockname")[:2]
        return host, port

    @property
    def sessions(self) -> int:
        return len(self._sessions)

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.counts["datagrams"] += 1
        datagram = read_datagram(data)
        try:
            if datagram is None or datagram.type in (Type.RETRY, Type.ACCEPT):
                self.counts["foreign"] += 1
            elif session := self._sessions.get(datagram.session):
                self._known(session, datagram, len(data), addr)
            elif datagram.type is Type.INIT:
                self._unknown(datagram, len(data), addr)
            else:
                self.counts["without session"] += 1
        except (BadSeal, MalformedFrames):
            self.counts["refused"] += 1

    def error_received(self, exc: Exception) -> None:
        self.counts["unreachable"] += 1

    def _known(self, session: Session, datagram: Datagram, size: int, address: Address) -> None:
        frames = session.open(datagram)
        if frames is None:
            self.counts["repeated"] += 1
            return
        session.heard(datagram, size, address)
        self._sessions.move_to_end(session.id)
        self._hosts.heard(session)
        session.take(frames)

    def _unknown(self, datagram: Datagram, size: int, address: Address) -> None:
        if size < MAX_DATAGRAM:
            # An answer must never be larger than the question of somebody who may be somebody else.
            self.counts["unpadded"] += 1
            return
        purpose = for_opening(datagram.session, datagram.public)
        proven = self._cookies.good(address[0], purpose, datagram.cookie)
        # The cookie costs little, so it is looked at first; without a good one, key exchanges are rationed.
        if not proven and not self._affordable(host_of(address)):
            self.counts["shed"] += 1
            return
        first = self._key.first_keys(datagram.suite, datagram.session, datagram.public, datagram.ciphertext)
        frames = read_frames(first.early.open(nonce_of(datagram.number), datagram.sealed, datagram.head))
        if not frames or not isinstance(frames[0], Time):
            raise MalformedFrames
        now, sent = time.time(), frames[0].milliseconds / 1000
        if not self._openings.timely(sent, now) or not (proven or self._room_for_unproven()):
            self._retry(datagram, first, address)
            return
        if not self._make_room(host_of(address)):
            self.counts["no room"] += 1
            return
        if not self._openings.take(datagram.public, sent, now):
            self.counts["repeated"] += 1
            return
        self._open(datagram, first, proven, size, address, frames)

    def _affordable(self, host: str) -> bool:
        try:
            self._by_host.spend(host)
            self._by_all.spend("")
        except NotNow:
            return False
        return True

    def _room_for_unproven(self) -> bool:
        return self.unproven < self.limits.unproven

    def _retry(self, datagram: Datagram, first: FirstKeys, address: Address) -> None:
        self.counts["retries"] += 1
        nonce = secrets.token_bytes(NONCE)
        head = retry_head(datagram.session, nonce)
        cookie = self._cookies.make(address[0], for_opening(datagram.session, datagram.public))
        inside = pack_retry(Retry(cookie, int(time.time() * 1000)))
        self.send(head + first.retry.seal(nonce, inside, head), address)

    def _open(
        self,
        datagram: Datagram,
        first: FirstKeys,
        proven: bool,
        size: int,
        address: Address,
        frames: list[Frame],
    ) -> None:
        public, keys = accept(first, datagram.session, datagram.public)
        self.counts["sessions"] += 1
        self.unproven += not proven
        session = Session(self, datagram, first, public, keys, address, host_of(address), proven)
        self._sessions[session.id] = session
        self._hosts.add(session)
        session.heard(datagram, size, address)
        session.take(frames)

    def _make_room(self, host: str) -> bool:
        """A silent session gives way to a new one, first one of the same host. None does that has work."""
        own = self._hosts.of(host)
        if len(own) >= self.limits.sessions_per_host and not _give_way(own.values()):
            return False
        return len(self._sessions) < self.limits.sessions or _give_way(self._sessions.values())

    @property
    def busy(self) -> bool:
        return len(self._tasks) >= self.limits.requests

    def cookie_for(self, address: Address, session: bytes) -> bytes:
        return self._cookies.make(address[0], for_moving(session))

    def cookie_good(self, address: Address, session: bytes, cookie: bytes) -> bool:
        return self._cookies.good(address[0], for_moving(session), cookie)

    def send(self, data: bytes, address: Address) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(data, address)

    def forget(self, session: Session) -> None:
        self._sessions.pop(session.id, None)
        self._hosts.forget(session)

    def proved(self) -> None:
        self.unproven -= 1

    def handle(
        self, operation: Operation, body: bytes, address: Address, done: Callable[[bytes], None]
    ) -> asyncio.Task[None]:
        async def work() -> None:
            try:
                message = pack_reply(await self._handler(operation, body, address))
            except Exception:
                log.exception("a request by SEP failed")
                message = pack_reply(Reply(500))
            if len(message) > self.limits.message:
                log.error("an answer by SEP was too large: %d bytes", len(message))
                message = pack_reply(Reply(500))
            done(message)

        self.counts["requests"] += 1
        task = asyncio.get_running_loop().create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _sweep(self) -> None:
        """Forget sessions that were silent for long, and messages that do not become whole."""
        loop = asyncio.get_running_loop()
        while self._sessions and next(iter(self._sessions.values())).silent > self.limits.idle:
            next(iter(self._sessions.values())).close()
        if self.assembling:
            for session in list(self._sessions.values()):
                session.drop_stalled()
        self._sweeping = loop.call_later(_SWEEP, self._sweep)


def _per_second(count: int) -> RateLimit:
    return RateLimit(Rate(count, count), time.monotonic)


def _give_way(sessions: Iterable[Session]) -> bool:
    """Close one of those that were silent longest, but none that works. Whether there was one.

    One without any requests comes first: the client of another may not have its reply yet, and ask again."""
    silent = [each for each in islice(sessions, _LOOKED_AT) if not each.works]
    if not silent:
        return False
    next((each for each in silent if not each.requests), silent[0]).close()
    return True
