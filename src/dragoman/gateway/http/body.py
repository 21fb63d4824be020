"""The body of a request, within limits of size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive, Scope

from dragoman.core.ending import end
from dragoman.gateway.http.answers import Answer, error
from dragoman.gateway.patience import Patience

T = TypeVar("T")


class Unreadable(Exception):
    """Carries the answer."""

    def __init__(self, answer: Answer | None) -> None:
        super().__init__()
        self.answer = answer
        """``None`` if nobody is there any more to read it."""


async def read_body(scope: Scope, receive: Receive, largest: int, patience: Patience) -> bytes:
    media_type, length = b"", b""
    for name, value in scope["headers"]:
        if name == b"content-type":
            media_type = value
        elif name == b"content-length":
            length = value
    if media_type.partition(b";")[0].strip().lower() != b"application/json":
        raise Unreadable(error(415, "gateway.media-type", "Send application/json."))
    if length.isdigit() and int(length) > largest:
        raise Unreadable(_too_large(largest))
    try:
        return await patience.limit(_gathered(receive, largest))
    except TimeoutError:
        raise Unreadable(error(408, "gateway.timeout", "The request took too long to arrive.")) from None


async def _gathered(receive: Receive, largest: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Unreadable(None)
        body += message.get("body", b"")
        if len(body) > largest:
            raise Unreadable(_too_large(largest))
        if not message.get("more_body"):
            return bytes(body)


async def unless_gone(work: Coroutine[Any, Any, T], receive: Receive) -> T:
    """Give it up when the client leaves: a response must not be handed to nobody."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(receive())
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Unreadable(None)
        return await working
    finally:
        await end(working, leaving)


def _too_large(largest: int) -> Answer:
    return error(413, "gateway.envelope.too-large", f"An envelope has {largest} bytes at most.")
