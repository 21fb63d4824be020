"""The outermost layer: what nobody foresaw is answered, and told once, in a line that holds no one's data.

The text of an exception may quote what somebody sent, or a credential. Its type and the lines of code that it
passed through cannot, and say where to look.
"""

from __future__ import annotations

import logging
import traceback

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.registry.http.answers import json_answer

log = logging.getLogger("dragoman.registry")


class Failsafe:
    """Lets no exception through to the server below, which would tell it again with all that it says."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answered = False

        async def listen(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self._app(scope, receive, listen)
        except Exception as error:
            _tell(scope, error)
            if not answered:
                await failure()(scope, receive, send)


def failure() -> Response:
    return json_answer({"error_code": 50001, "message": "Error in the backend data store"}, 500)


def _tell(scope: Scope, error: Exception) -> None:
    principal = scope.get("dragoman.principal")
    cause = error.__cause__ or error.__context__
    log.error(
        "request failed",
        extra={
            "method": scope["method"],
            "path": scope["path"],
            "by": principal.name if principal else "",
            "error": type(error).__name__,
            "cause": type(cause).__name__ if cause else "",
            "stack": [
                f"{frame.filename}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(error.__traceback__)
            ],
        },
    )
