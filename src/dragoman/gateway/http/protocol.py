"""Connections that do not send a whole request's head in time, or never end it, are closed."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_LARGEST = 512 * 1024
"""Bytes that may have come while the head is not complete. A body can come with it, so it is generous."""


class Bounded(HttpToolsProtocol):
    """The rest of a request is bounded where it is read; before that only the connection knows of it."""

    seconds: ClassVar[float] = 10.0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._in_head = True
        self._came = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self.loop.call_later(self.seconds, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._in_head:
            self._forget()
            return
        self._came += len(data)
        if self._timer is None:
            self._timer = self.loop.call_later(self.seconds, self.transport.close)
        if self._came > _LARGEST:
            self.transport.close()

    def _forget(self) -> None:
        self._came = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def bounded(seconds: float) -> type[Bounded]:
    return type("Bounded", (Bounded,), {"seconds": seconds})
