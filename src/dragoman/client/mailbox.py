"""Where a requester waits: one channel, read by this client alone, and who waits for what on it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from dragoman.client.burial import code_of
from dragoman.client.damage import DamageWatch
from dragoman.client.headers import CORRELATION_ID
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.pausing import Pauses
from dragoman.core.backoff import Backoff
from dragoman.core.broker import Acknowledgement, Broker, Receiver, Subscription
from dragoman.core.ending import end
from dragoman.core.errors import ClientClosed
from dragoman.core.message import Message, header

log = logging.getLogger("dragoman.client")

WINDOW = 1000
BATCH = 32
"""Replies that are acknowledged in one go."""
IDLE_WAIT = 1.0
REST = Backoff(0.1, 15.0)
REMEMBERED = 20_000
"""Requests that nobody waits for any more, and whose replies are known to be late for so long."""

Locate = Callable[[Message], Awaitable[bytes | None]]
"""Which request a reply belongs to."""


class Waiter(Protocol):
    def take(self, reply: Message) -> bool:
        """``False`` if it has had this one before."""

    def fail(self, error: Exception) -> None: ...


class Mailbox:
    """Hands each reply to the one who waits for it. Late and repeated ones are counted and dropped.

    Replies are not handled but handed over, so neither lanes nor a watermark are needed: one task receives,
    hands over and acknowledges. A reply is lost with its requester, and so is whoever waited for it.
    """

    def __init__(
        self,
        broker: Broker,
        subscription: Subscription,
        counters: ChannelMetrics,
        pauses: Pauses,
        locate: Locate | None = None,
    ) -> None:
        self.waiting: dict[bytes, Waiter] = {}
        self._broker = broker
        self._subscription = subscription
        self._counters = counters
        self._pauses = pauses
        self._locate = locate
        self._handed: list[Message] = []
        self._gone: OrderedDict[bytes, None] = OrderedDict()
        self._damage = DamageWatch(subscription.group)
        self._receiver: Receiver | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._receiver = await self._broker.subscribe(self._subscription)
        self._task = asyncio.create_task(self._run(), name=f"dragoman {self._subscription.group}")

    def leave(self, number: bytes, answered: bool) -> None:
        """Nobody waits for this one any more."""
        self.waiting.pop(number, None)
        if not answered:
            self._gone[number] = None
            if len(self._gone) > REMEMBERED:
                self._gone.popitem(last=False)

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                if self._receiver is None:
                    self._receiver = await self._broker.subscribe(self._subscription)
                await self._round(self._receiver)
                failures = 0
            except Exception as error:
                failures += 1
                log.warning(
                    "Receiving replies failed, it is tried again.",
                    exc_info=error if failures == 1 else None,
                    extra={"channels": self._subscription.channels, "error_code": code_of(error)},
                )
                await self._give_up_receiver()
                if not await self._pauses(REST.wait_s(failures)):
                    return

    async def _round(self, receiver: Receiver) -> None:
        messages = await self._damage.receive(receiver, WINDOW, IDLE_WAIT)
        if messages:
            await self._hand_out(messages)
        if len(self._handed) >= BATCH or not messages:
            await self._acknowledge(receiver)

    async def _hand_out(self, messages: Sequence[Message]) -> None:
        self._counters.received += len(messages)
        if self._locate is None:
            for message in messages:
                self._hand_over(message, header(message.headers, CORRELATION_ID))
        else:
            for message in messages:
                self._hand_over(message, await self._located(message, self._locate))
        self._handed += messages

    async def _acknowledge(self, receiver: Receiver) -> None:
        """Now and then: whoever waited has the reply already, and nobody else reads this channel."""
        handed, self._handed = self._handed, []
        if handed and self._broker.capabilities.acknowledgement is Acknowledgement.CUMULATIVE:
            handed = list({(each.channel, each.partition): each for each in handed}.values())
        if handed:
            await receiver.acknowledge(handed)

    async def _located(self, message: Message, locate: Locate) -> bytes | None:
        try:
            return await locate(message)
        except Exception as error:
            log.info(
                "A reply cannot be read.", extra={"channel": message.channel, "error_code": code_of(error)}
            )
            return None

    def _hand_over(self, message: Message, number: bytes | None) -> None:
        waiter = self.waiting.get(number) if number else None
        if waiter is not None:
            if waiter.take(message):
                self._counters.handled += 1
            else:
                self._counters.repeated += 1
        elif number in self._gone:
            self._counters.late += 1
        elif self._locate is None:
            # On a channel of our own it was ours.
            self._counters.repeated += 1
        else:
            # On a shared one it may be anybody's.
            self._counters.unselected += 1

    async def _give_up_receiver(self) -> None:
        receiver, self._receiver, self._handed = self._receiver, None, []
        if receiver is not None:
            with contextlib.suppress(Exception):
                await receiver.close()

    async def close(self) -> None:
        """Whoever still waits is told so."""
        for waiter in list(self.waiting.values()):
            waiter.fail(ClientClosed("The client was closed before the reply came."))
        if self._task is not None:
            await end(self._task)
        await self._give_up_receiver()
