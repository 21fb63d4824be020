"""The door: every request gets a principal, or is turned away."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.core.errors import Forbidden, RegistryError, RegistryUnavailable
from dragoman.registry.access import ANONYMOUS, EVERYBODY, Principal
from dragoman.registry.http.answers import json_answer
from dragoman.registry.refusals import status_of

log = logging.getLogger("dragoman.registry")

OPEN = frozenset({b"/health", b"/ready"})
"""Probes carry no credentials, and these paths tell nothing."""

Authenticate = Callable[[Scope], Principal | Awaitable[Principal]]
"""From a request to a principal; raises ``Forbidden``, or ``RegistryUnavailable`` if nobody can tell.

May answer at once when it remembers.
"""


class Gate:
    def __init__(self, app: ASGIApp, authenticate: Authenticate | None) -> None:
        self._app = app
        self._authenticate = authenticate

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "http":
            return self._app(scope, receive, send)
        if self._authenticate is None:
            scope["dragoman.principal"] = EVERYBODY
            return self._app(scope, receive, send)
        # The path as it is routed: another spelling of it is another path.
        if scope["raw_path"] in OPEN:
            scope["dragoman.principal"] = ANONYMOUS
            return self._app(scope, receive, send)
        try:
            found = self._authenticate(scope)
        except Forbidden as error:
            return _turn_away(error, scope, receive, send)
        if isinstance(found, Principal):
            scope["dragoman.principal"] = found
            return self._app(scope, receive, send)
        return self._wait(found, scope, receive, send)

    async def _wait(self, found: Awaitable[Principal], scope: Scope, receive: Receive, send: Send) -> None:
        try:
            scope["dragoman.principal"] = await found
        except Forbidden as error:
            await _turn_away(error, scope, receive, send)
            return
        except RegistryUnavailable as error:
            # Strangers are not told about the database.
            log.warning("credentials cannot be checked: %s", error.what)
            away = RegistryUnavailable("Credentials cannot be checked at present.")
            await _turn_away(away, scope, receive, send)
            return
        await self._app(scope, receive, send)


async def _turn_away(error: RegistryError, scope: Scope, receive: Receive, send: Send) -> None:
    status, number = status_of(error.code)
    answer = json_answer({"error_code": number, "message": error.what}, status)
    if "retry_after_s" in error.where:
        answer.headers["Retry-After"] = str(error.where["retry_after_s"])
    if status == 401:
        answer.headers["WWW-Authenticate"] = 'Basic realm="dragoman registry"'
    await answer(scope, receive, send)
