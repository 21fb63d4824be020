"""The whole application: failures, credentials, hot reads, observation, routes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.core.ending import end
from dragoman.core.errors import DragomanError
from dragoman.registry.http import (
    associations,
    contracts,
    evolution,
    keys,
    openschema,
    operation,
    subject_schemas,
    subject_settings,
    subjects,
)
from dragoman.registry.http.aliases import Aliases
from dragoman.registry.http.answers import error_answer, json_answer, subject_error
from dragoman.registry.http.authenticate import Authenticator
from dragoman.registry.http.failsafe import Failsafe, failure
from dragoman.registry.http.follow import Follower
from dragoman.registry.http.gate import Gate
from dragoman.registry.http.hot import HotAnswers, HotPath
from dragoman.registry.http.metrics import Metrics
from dragoman.registry.http.state import State
from dragoman.registry.name import context_name
from dragoman.registry.service import RegistryService

log = logging.getLogger("dragoman.registry")

_OWN_API = ("/contracts", "/channels", "/keys", "/history", "/export", "/import", "/schemas/")
_SUBJECT_SCHEMAS = ("/schemas/ids", "/schemas/guids", "/schemas/types")


ROUTES = (
    *operation.ROUTES,
    *subjects.ROUTES,
    *subject_schemas.ROUTES,
    *subject_settings.ROUTES,
    *contracts.ROUTES,
    *evolution.ROUTES,
    *keys.ROUTES,
    *openschema.ROUTES,
    *associations.ROUTES,
)


def build(
    service: RegistryService,
    *,
    authenticator: Authenticator | None = None,
    short_conflict_code: bool = False,
) -> ASGIApp:
    """The registry as an ASGI application."""
    metrics = Metrics()
    state = State(service, service.engine.limits, metrics, Aliases(service.engine), short_conflict_code)
    answers = HotAnswers()
    service.engine.on_change(answers.forget)
    inner = Starlette(
        routes=ROUTES,
        exception_handlers={
            DragomanError: _refuse,
            HTTPException: _plain_error,
            ClientDisconnect: _gone,
            Exception: _fail,
        },
        lifespan=_lifespan(state, answers),
    )
    inner.state.registry = state
    return Failsafe(Gate(HotPath(Observed(inner, metrics), answers, metrics), authenticator))


def _lifespan(state: State, answers: HotAnswers) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        follower = Follower(state.service.engine)
        following = asyncio.create_task(follower.run())
        state.ready = True
        try:
            yield
        finally:
            state.ready = False
            await end(following)

    return lifespan


class Observed:
    """Counts and logs each request, and keeps quoted slashes inside names away from the router."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500

        async def listen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        _route_in_context(scope)
        try:
            await self._app(scope, receive, listen)
        finally:
            seconds = time.perf_counter() - started
            self._metrics.observe(scope["method"], status, seconds)
            log.info(
                "request",
                extra={
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "milliseconds": round(seconds * 1000, 2),
                    "by": scope["dragoman.principal"].name,
                },
            )


def _route_in_context(scope: Scope) -> None:
    """Everything below ``/contexts/NAME`` is the same API within that context.

    Who accepts OpenSchema's media type gets its API at the root.
    """
    scope["path"] = path = scope["raw_path"].decode("latin-1")
    _, _, rest = path.partition("/contexts/")
    context, separator, inner = rest.partition("/")
    if path.startswith("/contexts/") and separator:
        with suppress(DragomanError):
            scope["dragoman.context"] = context_name(unquote(context))
            scope["path"] = "/" + inner
    if scope.get("dragoman.openschema"):
        scope["path"] = openschema.PREFIX + scope["path"]


def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, DragomanError)
    if request.scope["path"].startswith(openschema.PREFIX):
        return openschema.openschema_error(error)
    if _speaks_contracts(request):
        return error_answer(error)
    short = request.app.state.registry.short_conflict_code
    return subject_error(error, short_conflict_code=short)


def _plain_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = error.status_code
    return json_answer({"error_code": status, "message": f"HTTP {status} {error.detail}"}, status)


def _gone(request: Request, error: Exception) -> Response:
    """The client left before its request was whole; nobody reads this answer."""
    return Response(status_code=400)


def _fail(request: Request, error: Exception) -> Response:
    """Starlette raises it again after this answer, to whom it is told."""
    return failure()


def _speaks_contracts(request: Request) -> bool:
    path = request.scope["path"]
    return path.startswith(_OWN_API) and not path.startswith(_SUBJECT_SCHEMAS)
