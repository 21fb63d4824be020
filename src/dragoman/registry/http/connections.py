"""Bounds on connections and on the heads of requests, for every server here.

An application sees a request only when its head is complete. Before that, and between requests, only the
connection can be bounded.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from dragoman.core.settings import check_least, setting

_RESERVED_DESCRIPTORS = 256
"""Files that a process keeps for its database, its logs and its libraries."""
_MOST_CONNECTIONS = 65_536
_LEAST_BYTES = 64 * 1024
"""What a body or an answer must move by in its time: a slow line may take long, and a stalled one may not."""
_RESET = struct.pack("ii", 1, 0)
"""``SO_LINGER`` such that closing a socket also drops what the kernel has not sent."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The section ``registry_connections`` of the settings, and the limits of the gateway."""

    head_s: float = setting(
        10.0,
        "Seconds for the head of a request. The first one of a connection includes the TLS handshake.",
        least=0.001,
    )
    idle_s: int = setting(75, "Seconds that a connection may wait for its next request.", least=1)
    head_bytes: int = setting(
        64 * 1024, "Bytes of a request's first line with all its headers and trailers.", least=1024
    )
    body_s: float = setting(
        10.0, "Seconds for each 64 KiB of a request's body, or for its rest if that is less.", least=0.001
    )
    answer_s: float = setting(
        30.0, "Seconds in which a client must read 64 KiB of an answer, or its rest.", least=0.001
    )
    connections: int | None = setting(
        None, "Connections at once; by default as many as there are file descriptors for.", least=1
    )

    def __post_init__(self) -> None:
        check_least(self)

    def most_connections(self) -> int:
        if self.connections is not None:
            return self.connections
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors == resource.RLIM_INFINITY:
            return _MOST_CONNECTIONS
        return max(1, descriptors - min(_RESERVED_DESCRIPTORS, descriptors // 2))


class Pace:
    """Whether a transfer moves by ``_LEAST_BYTES`` in a time. Ask a few times within that time."""

    __slots__ = ("_at", "_since")

    def __init__(self) -> None:
        self._since: float | None = None
        self._at = 0

    def rest(self) -> None:
        """There is no transfer, or it does not wait for the other side."""
        self._since = None

    def is_too_slow(self, now: float, moved_bytes: int, within_s: float) -> bool:
        if self._since is None or moved_bytes - self._at >= _LEAST_BYTES:
            self._since, self._at = now, moved_bytes
            return False
        return now - self._since >= within_s


class BoundedProtocol(HttpToolsProtocol):
    """A connection within limits. One subclass per server holds what its connections share.

    A connection is in ``sockets`` from the time it is accepted, before its TLS handshake, until its socket is
    closed. It is in ``waiting_for_head`` while its handshake, the head of its first request, or a head that
    it has begun, is not complete. It is in ``idle`` between requests. When there are too many connections,
    the one that has waited longest for a head is closed, then the one that has been idle longest, then one
    that only waits for the other side to close it. So connections that send nothing cannot keep out those
    that do.

    One timer looks at all connections, whether a body arrives and an answer is read.
    """

    limits: ClassVar[ConnectionLimits]
    most: ClassVar[int]
    sockets: ClassVar[dict[BoundedProtocol, asyncio.Transport]]
    waiting_for_head: ClassVar[dict[BoundedProtocol, None]]
    idle: ClassVar[dict[BoundedProtocol, None]]
    next_look: ClassVar[asyncio.TimerHandle | None]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._established = False
        """Whether there is a connection to speak HTTP on, which with TLS is after the handshake."""
        self._in_head = False
        self._progress = 0
        """Grows with each head that begins, part of a body, and end of a request."""
        self._head_bytes = 0
        """Of the parts of the head, and of the trailers, that the parser has told."""
        self._untold_bytes = 0
        """What came since the last progress, at least: the parser tells a header only when it is complete."""
        self._too_large = False
        self._refusal: tuple[bytes, bytes] | None = None
        """Status and text for the request that was arriving. Nothing that comes after it is read."""
        self._in_body = False
        self._body_bytes = 0
        self._body_pace = Pace()
        self._answer_pace = Pace()
        self._deadline: asyncio.TimerHandle | None = None
        self._cycles: deque[RequestResponseCycle] = deque()
        """Requests that are not answered, in their order: the first is under way, the others wait for it."""
        self._was_closed_here = False
        """At the last look."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._established = True
        if self not in self.sockets:
            self.socket_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.socket_lost()
        super().connection_lost(exc)
        # Uvicorn tells only the request that came last. The others would write to a closed transport.
        for cycle in self._cycles:
            cycle.disconnected = True
            cycle.message_event.set()
        self._cycles.clear()

    def socket_made(self, transport: asyncio.Transport) -> None:
        """Count it. With TLS this is called before the handshake, else for a connection that is made."""
        self.sockets[self] = transport
        self._expect_head()
        if self.next_look is None:
            self._look_later(self.loop)
        if len(self.sockets) > self.most:
            self._make_room()

    def socket_lost(self) -> None:
        self._leave()
        self.sockets.pop(self, None)

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        progress = self._progress
        super().data_received(data)
        if self._refusal is not None or self.transport.is_closing():
            return
        if self._in_head or self._in_body:
            self._untold_bytes = self._untold_bytes + len(data) if progress == self._progress else 0
            if self._untold_bytes > self.limits.head_bytes:
                self._too_large = True
                self.send_400_response("")
                return
        if self._in_head or (self._is_quiet() and self.timeout_keep_alive_task is None):
            # Whatever came between two requests has also ended the wait for the next one.
            self._expect_head()

    def on_message_begin(self) -> None:
        self._in_head = True
        self._progress += 1
        self._head_bytes = 0
        if not self._unsent():
            # The answers before were read.
            self._answer_pace.rest()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        if self._in_head:
            super().on_header(name, value)
        # Else it is a trailer. Proxies check what the head says, so a trailer must not add to it.

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._leave()
        # Raises an error for a URL that cannot be read. Then there is no request, and no body.
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            self._cycles.append(self.cycle)
        self._in_body = True
        self._body_bytes = 0
        self._body_pace.rest()

    def on_body(self, body: bytes) -> None:
        self._progress += 1
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._progress += 1
        self._in_body = False
        super().on_message_complete()

    def resume_writing(self) -> None:
        # Most of a full buffer was read.
        self._answer_pace.rest()
        super().resume_writing()

    def on_response_complete(self) -> None:
        if self._cycles:
            self._cycles.popleft()
        if self._refusal is not None and len(self.pipeline) == self._in_body:
            # Those before the refused one were answered. It is in the pipeline if its head is complete.
            self._close_with(*self._refusal)
            return
        super().on_response_complete()
        if self.timeout_keep_alive_task is not None and self._deadline is None:
            self.idle[self] = None

    def send_400_response(self, msg: str) -> None:
        if self._too_large:
            msg = (
                f"The head of the request, with its trailers, is larger than {self.limits.head_bytes} bytes."
            )
            self._refuse(b"431 Request Header Fields Too Large", msg)
        else:
            self._refuse(b"400 Bad Request", msg)

    def _refuse(self, status: bytes, text: str) -> None:
        """Refuse the request that is arriving, and close the connection.

        A client takes the answers in the order of its requests. So the requests before this one are answered
        first, and nothing is sent if the answer to this one has begun.
        """
        self._leave()
        self._refusal = status, text.encode()
        is_next = not self.pipeline if self._in_body else self._is_quiet()
        if not is_next:
            self.flow.pause_reading()
        elif not self._in_body or not self.cycle.response_started:
            self._close_with(*self._refusal)
        elif self.cycle.response_complete:
            self.transport.close()
        else:
            self._abort()

    def _close_with(self, status: bytes, text: bytes, headers: bytes = b"") -> None:
        """The last words on this connection."""
        if self.transport.is_closing():
            return
        head = b"HTTP/1.1 %b\r\n%bcontent-type: text/plain; charset=utf-8\r\n" % (status, headers)
        end = b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(text), text)
        self.transport.write(head + end)
        self.transport.close()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self.limits.head_bytes:
            self._too_large = True
            # The parser stops at any error of its listener, and the request is answered as a bad one.
            raise ValueError("The head is too large.")

    def _expect_head(self) -> None:
        self.idle.pop(self, None)
        self.waiting_for_head.setdefault(self)
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.limits.head_s, self._too_late)

    def _leave(self) -> None:
        self.idle.pop(self, None)
        self.waiting_for_head.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _is_quiet(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    @classmethod
    def _look_later(cls, loop: asyncio.AbstractEventLoop) -> None:
        seconds = min(cls.limits.body_s, cls.limits.answer_s) / 4
        cls.next_look = loop.call_later(seconds, cls._look, loop)

    @classmethod
    def _look(cls, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        cls.next_look = None
        if cls.sockets:
            # First, so that the limits stay in force whatever befalls one connection.
            cls._look_later(loop)
        for each in [each for each in cls.sockets if each._established]:
            each._check_answer(now)
            each._check_body(now)
            each._check_closed()

    def _check_body(self, now: float) -> None:
        if (
            not self._in_body
            or self._refusal is not None
            or self.flow.read_paused
            or self.cycle.waiting_for_100_continue
        ):
            # There is none, or it waits for us.
            self._body_pace.rest()
        elif self._body_pace.is_too_slow(now, self._body_bytes, self.limits.body_s):
            self._refuse(b"408 Request Timeout", "The body of the request took too long to arrive.")

    def _check_answer(self, now: float) -> None:
        unsent = self._unsent()
        if not unsent:
            self._answer_pace.rest()
        elif self._answer_pace.is_too_slow(now, -unsent, self.limits.answer_s):
            self._reset()

    def _check_closed(self) -> None:
        """Inside TLS the other side should close too, but need not. It has until the next look."""
        if self._was_closed_here and self._is_closed_here():
            self._abort()
        self._was_closed_here = self._is_closed_here()

    def _reset(self) -> None:
        """Abort it, and let the kernel forget what it has not sent."""
        if self._unsent():
            # Its socket is open. The number of one that is closed may belong to another connection already.
            raw = self.sockets[self].get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._abort()

    @classmethod
    def abort_handshakes(cls) -> None:
        """The server stops. It knows only connections whose handshake is complete."""
        for each in list(cls.sockets):
            if not each._established:
                each._abort()

    @classmethod
    def abort_all(cls) -> None:
        """The server has waited long enough. Requests under way find that their client has left."""
        for each in list(cls.sockets):
            each._reset()

    def _is_closed_here(self) -> bool:
        """Whether everything was sent, and only the other side does not close."""
        return self._established and self.transport.is_closing() and not self._unsent()

    def _unsent(self) -> int:
        """Bytes that the kernel has not taken yet."""
        below = self.sockets.get(self)
        if below is None:
            return 0
        size = below.get_write_buffer_size()
        if self._established and self.transport is not below:
            size += self.transport.get_write_buffer_size()
        return size

    def _abort(self) -> None:
        self._leave()
        if self in self.sockets:
            self.sockets[self].abort()

    def _too_late(self) -> None:
        self._leave()
        if not self._established:
            self._abort()
        elif self._is_quiet():
            self.transport.close()
            if self in self.sockets and not self._unsent():
                # TLS would wait for the other side, which has had its time.
                self.sockets[self].close()
        else:
            # The next request is late while the answer to the one before is still being sent.
            self._expect_head()

    def _make_room(self) -> None:
        oldest = next(self._that_may_go(), None)
        if oldest is not None:
            oldest._abort()
        elif not self._established:
            # An answer would need the handshake, which is most of the work.
            self._abort()
        else:
            self._leave()
            self._close_with(
                b"503 Service Unavailable", b"The server has too many connections.", b"retry-after: 1\r\n"
            )

    def _that_may_go(self) -> Iterator[BoundedProtocol]:
        for candidates in (self.waiting_for_head, self.idle):
            yield from (each for each in candidates if each is not self and each._is_quiet())
        yield from (each for each in self.sockets if each._is_closed_here())


def bounded(limits: ConnectionLimits) -> type[BoundedProtocol]:
    """The protocol of one server."""
    shared: dict[str, Any] = {"limits": limits, "most": limits.most_connections()}
    shared |= {"sockets": {}, "waiting_for_head": {}, "idle": {}, "next_look": None}
    return type("Bounded", (BoundedProtocol,), shared)
