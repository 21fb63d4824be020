"""A channel of one broker, brought to another: at least once, in order per key, from where it was left."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from dragoman.client.burial import code_of
from dragoman.client.damage import DamageWatch
from dragoman.core.backoff import Backoff
from dragoman.core.broker import Acknowledgement, Broker, Receiver, Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import BrokerUnavailable, DamagedLog, Revoked
from dragoman.core.message import Message

log = logging.getLogger("dragoman.client")

BATCH = 500
PATIENCE = 3
"""After so many failures in a row the receiver is given up, and a new one is opened."""
REST = Backoff(0.2, 15.0)
WAIT = 0.5


@dataclass(frozen=True, slots=True)
class End:
    """One end of a bridge: a channel and the connected broker that has it."""

    broker: Broker
    channel: str


class Bridge:
    """Copies payload, key, headers and timestamp as they are; a frame stays readable by the same registry.

    The source knows how far the bridge is, by its ``group``. A message is acknowledged there when the target
    has confirmed it, so that one which dies in between is copied again, and none is left out. Brokers that
    are away are waited for. Several bridges with one group share the work where the source can be shared.
    A damaged range of the source stops its partition only, until it is restored or the group moved past it.
    """

    def __init__(
        self,
        source: End,
        target: End,
        *,
        group: str,
        start: Literal["earliest", "latest"] | int = "earliest",
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self._subscription = Subscription((source.channel,), group, start, member="bridge")
        self._progress = progress
        self._damage = DamageWatch(group)
        self._receiver: Receiver | None = None
        self._copied = 0
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Let ``run`` end once it has acknowledged what it has copied."""
        self._stopping.set()

    @property
    def standing_at(self) -> DamagedLog | None:
        """Damage of the source that kept the bridge from going on, when nothing came the last time."""
        return self._damage.standing_at

    async def run(self, idle: float | None = None) -> int:
        """How many were copied; ends when nothing has come for ``idle`` seconds, or after ``stop``."""
        await self._prepare()
        failures, quiet_since = 0, time.monotonic()
        try:
            while not self._stopping.is_set() and (idle is None or time.monotonic() - quiet_since < idle):
                try:
                    if await self._round():
                        quiet_since = time.monotonic()
                    failures = 0
                except BrokerUnavailable as error:
                    failures += 1
                    quiet_since = time.monotonic()
                    await self._wait_for(error, failures)
        finally:
            await self._leave()
        return self._copied

    async def _prepare(self) -> None:
        """The target gets a channel like the source's, if it has none."""
        found = await self._source.broker.describe(self._source.channel)
        await self._target.broker.create(Channel(self._target.channel, found.partitions, found.retention))

    async def _round(self) -> bool:
        if self._receiver is None:
            self._receiver = await self._source.broker.subscribe(self._subscription)
        messages = await self._damage.receive(self._receiver, BATCH, WAIT)
        if not messages:
            return False
        if not await self._copy(self._receiver, messages):
            return False
        with contextlib.suppress(Revoked):
            await self._acknowledge(self._receiver, self._done(messages))
        self._copied += len(messages)
        if self._progress is not None:
            self._progress(self._copied)
        return True

    async def _copy(self, receiver: Receiver, messages: Sequence[Message]) -> bool:
        """Again and again until the target has them all: what comes later must not overtake them.

        ``False`` if it does not have them, and the bridge is to stop.
        """
        copies = [
            Message(self._target.channel, each.payload, each.key, each.headers, timestamp=each.timestamp)
            for each in messages
        ]
        failures = 0
        while True:
            try:
                await self._target.broker.publish(copies)
                return True
            except BrokerUnavailable as error:
                failures += 1
                self._report(error, failures)
                await self._pause(REST.wait_s(failures))
                if self._stopping.is_set():
                    return False
                # If the source is away as well, that is no reason to leave out what it gave us before.
                with contextlib.suppress(BrokerUnavailable):
                    await receiver.extend()

    async def _acknowledge(self, receiver: Receiver, done: Sequence[Message]) -> None:
        """Some attempts, also when it is to stop: what is not acknowledged is copied again."""
        for failures in range(1, PATIENCE):
            try:
                await receiver.acknowledge(done)
                return
            except BrokerUnavailable as error:
                self._report(error, failures)
                await asyncio.sleep(REST.wait_s(failures))
        await receiver.acknowledge(done)

    def _done(self, messages: Sequence[Message]) -> Sequence[Message]:
        """What to acknowledge: with cumulative acknowledgement the last of each partition."""
        if self._source.broker.capabilities.acknowledgement is Acknowledgement.EACH:
            return messages
        last: dict[int | None, Message] = {}
        for message in messages:
            known = last.get(message.partition)
            if known is None or (known.offset or 0) < (message.offset or 0):
                last[message.partition] = message
        return list(last.values())

    async def _wait_for(self, error: BrokerUnavailable, failures: int) -> None:
        self._report(error, failures)
        if failures >= PATIENCE:
            await self._leave()
        await self._pause(REST.wait_s(failures))

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _leave(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            with contextlib.suppress(Exception):
                await receiver.close()

    def _report(self, error: BrokerUnavailable, failures: int) -> None:
        log.warning(
            "The bridge waits for a broker.",
            extra={
                "source": self._source.channel,
                "target": self._target.channel,
                "error_code": code_of(error),
                "failures": failures,
            },
        )
