"""Several replies to one request: put in order, each once, until the one that says it was the last."""

from __future__ import annotations

import asyncio
from collections import deque

from dragoman.client.headers import ERROR_CODE, RAISED, REPLY_END, REPLY_NUMBER
from dragoman.core.errors import ClientError
from dragoman.core.message import Message, header


class Stream:
    """Waits for many replies. An endpoint that was killed begins again: what came before is dropped."""

    def __init__(self) -> None:
        self.ended = False
        self._expected = 0
        self._ready: deque[Message | Exception | None] = deque()
        self._changed = asyncio.Event()

    def take(self, reply: Message) -> bool:
        if self.ended:
            return False
        number = _number(reply, REPLY_NUMBER)
        if number is not None and number < self._expected:
            return False
        end = _number(reply, REPLY_END)
        missing = number if number is not None else end
        if missing is not None and missing != self._expected:
            self._put(_gap(self._expected, missing), last=True)
        elif end is not None:
            self._put(None, last=True)
        else:
            self._expected += 1
            single = number is None
            self._put(reply, last=single and _is_failure(reply))
            if single and not self.ended:
                # An endpoint that returns one reply instead of yielding some.
                self._put(None, last=True)
        return True

    def fail(self, error: Exception) -> None:
        if not self.ended:
            self._put(error, last=True)

    def _put(self, what: Message | Exception | None, last: bool) -> None:
        self._ready.append(what)
        self.ended = last
        self._changed.set()

    async def next(self) -> Message | None:
        """The next reply; ``None`` behind the last."""
        while not self._ready:
            self._changed.clear()
            await self._changed.wait()
        found = self._ready.popleft()
        if isinstance(found, Exception):
            raise found
        return found


def _number(reply: Message, name: str) -> int | None:
    value = header(reply.headers, name)
    return int(value) if value is not None and value.isdigit() and len(value) < 19 else None


def _is_failure(reply: Message) -> bool:
    return any(name in (ERROR_CODE, RAISED) for name, _ in reply.headers)


def _gap(expected: int, found: int) -> ClientError:
    return ClientError(
        f"Reply {expected} of the stream is missing: {found} came.",
        code="client.reply-gap",
        next="Ask again.",
    )
