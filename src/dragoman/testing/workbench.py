"""A client on ``memory://`` for users' tests: the real loop, virtual time, and a look at every channel.

    async with Workbench([LoanBroker]) as bench:
        await bench.client.publish("loan.requests", LoanRequest(1, 10_000.0, 24))
        await bench.handled()
        assert await bench.values("loan.replies", LoanReply) == [LoanReply(1, 3.4)]

Messages are really delivered, retried, redelivered, dead-lettered and acknowledged. Only time is not real:
rests and delays cost nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from itertools import count
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from dragoman.client.client import Client
from dragoman.client.contracts import Contracts
from dragoman.client.headers import ERROR_CODE, ERROR_MESSAGE, text_of
from dragoman.client.history import history
from dragoman.core.clock import ManualClock
from dragoman.core.errors import ChannelNotFound
from dragoman.core.loading import BROKERS, load
from dragoman.core.message import Message
from dragoman.registry import connect
from dragoman.schema.framing import unframe

T = TypeVar("T")

PATIENCE = 60.0
"""Real seconds after which a test fails that waits for something."""
NAP = 0.002
FIRST_STEP, GROWTH, LONGEST_STEP = 0.1, 1.3, 60.0

_numbers = count(1)


class Letter(NamedTuple):
    """A message that could not be handled, and why."""

    message: Message
    code: str
    reason: str


class Workbench:
    """``controllers`` and further arguments are those of ``Client``; broker and registry are its own.

    ``client`` is the client, ``clock`` its time, which stands still unless somebody moves it.
    """

    def __init__(self, controllers: Iterable[object] = (), **more: Any) -> None:
        self.clock = ManualClock()
        self.broker = load(BROKERS, "memory")(f"memory://workbench-{next(_numbers)}", clock=self.clock)
        self.registry = connect("memory://")
        self.client = Client(self.broker, self.registry, controllers, **more)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.registry.close)
            stack.push_async_callback(self.broker.close)
            await self.broker.connect()
            await stack.enter_async_context(self.client)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def handled(self, seconds: float = PATIENCE) -> None:
        """Return when everything that was published is handled or put aside.

        While nothing happens, the clock is moved on: whoever rests before the next try, and what is delayed,
        gets its turn at once. Fails the test after so many real seconds.
        """
        step = FIRST_STEP
        try:
            async with asyncio.timeout(seconds):
                while await self._unhandled():
                    before = self.client.metrics.snapshot()
                    await asyncio.sleep(NAP)
                    if self.client.metrics.snapshot() == before:
                        self.clock.advance(step)
                        step = min(LONGEST_STEP, step * GROWTH)
                    else:
                        step = FIRST_STEP
        except TimeoutError:
            left = ", ".join(await self._unhandled())
            raise AssertionError(f"Not everything was handled in {seconds:g} seconds: {left}.") from None

    async def _unhandled(self) -> list[str]:
        """What still waits, in words."""
        found = [
            f"{lag.behind} of {channel} for {lag.group}"
            for channel in await self.broker.channels()
            for lag in await self.broker.lag(channel)
            if lag.behind
        ]
        return [*found, f"{self.broker.delayed} delayed"] if self.broker.delayed else found

    async def messages(self, channel: str) -> list[Message]:
        """All that was ever published to a channel, in order. None if there is no such channel."""
        try:
            return [message async for message in history(self.broker, channel)]
        except ChannelNotFound:
            return []

    async def values(self, channel: str, cls: type[T]) -> list[T]:
        """The same, decoded."""
        contracts = Contracts(self.registry, self.client.options)
        found: list[T] = []
        for message in await self.messages(channel):
            schema_id, payload = unframe(message.payload or b"")
            found.append((await contracts.decoder(schema_id, cls))(payload))
        return found

    async def expect(self, channel: str, *wanted: object, seconds: float = PATIENCE) -> None:
        """Wait until a channel has these values, among others, in any order. Fails the test if never."""
        found: list[Any] = []
        try:
            async with asyncio.timeout(seconds):
                while True:
                    found = await self.values(channel, type(wanted[0]))
                    if all(each in found for each in wanted):
                        return
                    await asyncio.sleep(NAP)
        except TimeoutError:
            missing = [each for each in wanted if each not in found]
            raise AssertionError(f"{channel} has {found}, but not {missing}.") from None

    async def dead(self, channel: str) -> list[Letter]:
        """The dead letters of a channel, under their usual name."""
        return await self.letters(f"{channel}.dead")

    async def invalid(self, channel: str) -> list[Letter]:
        """What could not be read."""
        return await self.letters(f"{channel}.invalid")

    async def letters(self, channel: str) -> list[Letter]:
        return [
            Letter(message, text_of(message.header(ERROR_CODE)), text_of(message.header(ERROR_MESSAGE)))
            for message in await self.messages(channel)
        ]
