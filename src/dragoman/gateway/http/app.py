"""The gateway as an ASGI application.

Plain ASGI, since there are two paths that matter, and each request to them should cost little.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import msgspec
from starlette.types import Receive, Scope, Send

from dragoman.core.errors import DragomanError, GatewayError, InvalidEnvelope
from dragoman.gateway.gateway import Gateway
from dragoman.gateway.http.answers import NOTHING, Answer, accepted, collected, error, plain, refused
from dragoman.gateway.http.body import Unreadable, read_body, unless_gone
from dragoman.gateway.http.cors import Origins
from dragoman.gateway.http.metrics import Metrics
from dragoman.gateway.http.openapi import document
from dragoman.gateway.patience import Patience

if TYPE_CHECKING:
    from dragoman.gateway.sep.server import SepServer

log = logging.getLogger("dragoman.gateway")

Handle = Callable[[Scope, Receive], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class HttpOptions:
    origins: tuple[str, ...] = ()
    """Of pages that may call the gateway from a browser."""
    head_seconds: float = 10.0
    """How long the head of a request may take to arrive."""
    body_seconds: float = 10.0
    """How long its body may take."""


class Application:
    """Enters the gateway when the server starts and leaves it when it stops."""

    def __init__(
        self,
        gateway: Gateway,
        options: HttpOptions | None = None,
        sep: SepServer | None = None,
    ) -> None:
        """``sep`` is a server of the same gateway, which starts and stops with this one."""
        self._gateway = gateway
        self.sep = sep
        self.failure: DragomanError | None = None
        """Why it could not start."""
        self._options = options or HttpOptions()
        self._origins = Origins(self._options.origins)
        self._patience = Patience(self._options.body_seconds)
        self._largest = gateway.options.limits.bytes
        self.metrics = Metrics()
        self._posts: dict[str, Handle] = {"/drop-off": self._drop_off, "/collection": self._collect}
        self._gets: dict[str, Handle] = {
            "/health": self._health,
            "/ready": self._ready,
            "/metrics": self._show_metrics,
            "/openapi.json": self._openapi,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        started = time.perf_counter()
        path: str = scope["path"]
        answer = await self._answer(scope, receive)
        if answer is None:
            return
        headers = [*answer.headers, (b"content-length", str(len(answer.body)).encode())]
        if path in self._posts:
            headers += self._origins.headers(scope)
        else:
            path = path if path in self._gets else "other"
        if answer.status == 204:
            headers = [each for each in headers if each[0] != b"content-length"]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})
        self.metrics.observe(path, answer.status, time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer | None:
        path, method = scope["path"], scope["method"]
        handle = {"POST": self._posts, "GET": self._gets}.get(method, {}).get(path)
        try:
            return self._elsewhere(scope) if handle is None else await handle(scope, receive)
        except Unreadable as found:
            return found.answer
        except GatewayError as failure:
            return refused(failure)
        except Exception:
            log.exception("A request failed.", extra={"path": path})
            return error(500, "gateway.internal", "The gateway failed; its log says why.")

    def _elsewhere(self, scope: Scope) -> Answer:
        path = scope["path"]
        if path in self._posts:
            if scope["method"] == "OPTIONS":
                return self._origins.preflight(scope)
            return error(405, "gateway.method", "Use POST.", (b"allow", b"POST, OPTIONS"))
        if path in self._gets:
            return error(405, "gateway.method", "Use GET.", (b"allow", b"GET"))
        return error(404, "gateway.not-found", "There is nothing here.")

    async def _drop_off(self, scope: Scope, receive: Receive) -> Answer:
        body = await read_body(scope, receive, self._largest, self._patience)
        return accepted(await self._gateway.drop_off.accept(body, peer=_peer(scope)))

    async def _collect(self, scope: Scope, receive: Receive) -> Answer:
        wait = _wait(scope["query_string"])
        body = await read_body(scope, receive, self._largest, self._patience)
        collecting = self._gateway.collection.collect(body, wait=wait, peer=_peer(scope))
        found = await (unless_gone(collecting, receive) if wait else collecting)
        return NOTHING if found is None else collected(found)

    async def _health(self, scope: Scope, receive: Receive) -> Answer:
        return plain(200, b'{"status":"OK"}', "application/json")

    async def _ready(self, scope: Scope, receive: Receive) -> Answer:
        if await self._gateway.ready():
            return plain(200, b'{"status":"OK"}', "application/json")
        return error(503, "gateway.not-now", "Store or broker do not answer.", (b"retry-after", b"2"))

    async def _show_metrics(self, scope: Scope, receive: Receive) -> Answer:
        gateway, sep = self._gateway, self.sep
        counts, sessions = ({}, 0) if sep is None else (sep.counts, sep.sessions)
        text = self.metrics.text(gateway.audit.counts, len(gateway.collection.waiting), counts, sessions)
        return plain(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")

    async def _openapi(self, scope: Scope, receive: Receive) -> Answer:
        return plain(200, msgspec.json.encode(document()), "application/json")

    async def _live(self, receive: Receive, send: Send) -> None:
        """The server's start and stop."""
        async with AsyncExitStack() as stack:
            await receive()
            try:
                await stack.enter_async_context(self._gateway)
                if self.sep is not None:
                    await stack.enter_async_context(self.sep)
            except DragomanError as failure:
                # Clients are not told why a store is away. The command that starts the server says it.
                cause = failure.__cause__
                self.failure = cause if isinstance(cause, DragomanError) else failure
                await send({"type": "lifespan.startup.failed", "message": str(self.failure)})
                return
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _wait(query: bytes) -> float:
    """``?wait=SECONDS``; none without it."""
    if not query:
        return 0.0
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("wait", ["0"])
    try:
        seconds = float(given[-1])
        if not 0 <= seconds < float("inf"):
            raise ValueError
    except ValueError:
        raise InvalidEnvelope(
            "The parameter wait is a number of seconds.", code="gateway.envelope.wait"
        ) from None
    return seconds
