"""The polling consumer: messages are taken when the program wants them, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from dragoman.client.arguments import at_least
from dragoman.client.consumer import Consumer
from dragoman.client.delivery import Delivery
from dragoman.client.endpoint import endpoint
from dragoman.client.invocation import metadata
from dragoman.client.markers import Metadata
from dragoman.client.options import EndpointOptions
from dragoman.client.outcome import DONE, Handler, Outcome, again
from dragoman.core.errors import ClientError
from dragoman.core.message import Message

T = TypeVar("T")

Open = Callable[[object], Awaitable[Sequence[Consumer]]]
"""Start the consumers of an endpoint."""
Close = Callable[[Sequence[Consumer]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Source:
    """What is polled, and how much of it at a time."""

    channel: str
    cls: Any
    group: str | None = None
    options: EndpointOptions | None = None
    wait: float | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.wait is not None:
            at_least("wait", self.wait, 0)
        if self.limit is not None:
            at_least("limit", self.limit, 1, whole=True)


@dataclass(slots=True)
class _Turn:
    delivery: Delivery
    outcome: asyncio.Future[Outcome] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def settle(self, outcome: Outcome) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class Poll(Generic[T]):
    """Values of one channel, in a block of ``async with`` or a loop. See ``Client.poll``.

    A message is acknowledged when the next one is asked for, or when the block ends without an error. After
    an error it is delivered again. Reading, expiry, selection, invalid messages and versions are dealt with
    as for any endpoint.
    """

    def __init__(self, source: Source, open: Open, close: Close) -> None:
        self._source = source
        self._open = open
        self._close = close
        self._consumers: Sequence[Consumer] = ()
        self._turns: asyncio.Queue[_Turn] = asyncio.Queue()
        self._current: _Turn | None = None
        self._taken = 0
        self._entered = False
        self._closing = False

    async def __aenter__(self) -> Self:
        source, self._entered = self._source, True

        async def poll(value: Any) -> None:
            """Never called: the middleware hands the delivery to whoever polls."""

        poll.__annotations__ = {"value": source.cls, "return": None}
        poll.__qualname__ = f"poll({source.channel})"
        marked = endpoint(
            source.channel, group=source.group, options=source.options, middleware=[self._hand_over]
        )(poll)
        self._consumers = await self._open(marked)
        return self

    async def _hand_over(self, delivery: Delivery, next: Handler) -> Outcome:
        if self._closing:
            return again()
        turn = _Turn(delivery)
        self._turns.put_nowait(turn)
        return await turn.outcome

    def __aiter__(self) -> AsyncIterator[T]:
        return self if self._entered else self._alone()

    async def _alone(self) -> AsyncIterator[T]:
        """The loop without a block around it. Left early, for whatever reason, it has not finished."""
        async with self:
            async for value in self:
                yield value

    async def __anext__(self) -> T:
        """The next value. Ends when nothing came for ``wait`` seconds, or after ``limit`` messages."""
        self._settle(DONE)
        if self._taken == self._source.limit or self._closing:
            raise StopAsyncIteration
        try:
            async with asyncio.timeout(self._source.wait):
                self._current = await self._turns.get()
        except TimeoutError:
            raise StopAsyncIteration from None
        self._taken += 1
        value: T = self._current.delivery.value
        return value

    def _settle(self, outcome: Outcome) -> None:
        turn, self._current = self._current, None
        if turn is not None:
            turn.settle(outcome)

    @property
    def message(self) -> Message:
        """The current message as the broker carries it."""
        return self._delivery.message

    @property
    def about(self) -> Metadata:
        """Where the current message comes from."""
        return metadata(self._delivery)

    @property
    def _delivery(self) -> Delivery:
        if self._current is None:
            raise ClientError("No message is being looked at.", code="client.poll", next="Ask for one.")
        return self._current.delivery

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closing = True
        self._settle(DONE if error is None else again())
        while not self._turns.empty():
            self._turns.get_nowait().settle(again())
        await self._close(self._consumers)
