"""The one delivery loop: receive, have handled, acknowledge; whatever the broker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dragoman.client.burial import code_of
from dragoman.client.damage import DamageWatch
from dragoman.client.flight import Flight
from dragoman.client.lane import Intake
from dragoman.client.pausing import Pauses
from dragoman.client.watch import Watch
from dragoman.core.backoff import Backoff
from dragoman.core.broker import Acknowledgement, Broker, Receiver, Subscription
from dragoman.core.ending import end

log = logging.getLogger("dragoman.client")

BUSY_WAIT = 0.05
"""How long to wait for more messages while some are being handled: finished ones wait for it to end."""
IDLE_WAIT = 5.0
BEAT = 3.0
"""How often the broker is told that handlers are still at work."""
FLOW = 100
"""So many at once are a stream, of which the next are taken before the last are acknowledged."""
PATIENCE = 3
"""After so many failures in a row the receiver is given up, and a new one is opened."""
REST = Backoff(0.2, 15.0)


@dataclass(frozen=True, slots=True)
class Pace:
    window: int
    """Messages in flight at most, without those that wait for others."""
    drain_timeout: float
    slow_after_s: float = 60.0


class Consumer:
    """One member of one group. The receiver is used by the loop's task alone, and after it by ``stop``."""

    def __init__(
        self,
        broker: Broker,
        subscription: Subscription,
        intakes: Mapping[str, Intake],
        pace: Pace,
        pauses: Pauses,
        halted: Callable[[str, Exception], None] | None = None,
    ) -> None:
        self._broker = broker
        self._subscription = subscription
        self._intakes = intakes
        self._pace = pace
        self._pauses = pauses
        self._watch = Watch(subscription.group, pace.slow_after_s)
        self._halted = halted
        self._halting: asyncio.Task[None] | None = None
        self._receiver: Receiver | None = None
        self._flight: Flight | None = None
        self._task: asyncio.Task[None] | None = None
        self._damage = DamageWatch(subscription.group)
        self._stopping = False
        self._torn_down = False
        self._beat_at = 0.0
        self._flowing = False
        """Many messages came the last time, so probably more are waiting."""

    async def subscribe(self) -> None:
        """Join the group, without receiving yet."""
        self._receiver = receiver = await self._broker.subscribe(self._subscription)
        cumulative = self._broker.capabilities.acknowledgement is Acknowledgement.CUMULATIVE
        self._flight = Flight(receiver, cumulative, self._intakes, self._is_torn_down)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"dragoman {self._subscription.group}")

    def _is_torn_down(self) -> bool:
        """Whether the loop's task is cancelled, but not by ``stop``: then all tasks of the program are."""
        if self._torn_down or self._task is None or self._stopping:
            return self._torn_down
        return self._task.cancelling() > 0

    @property
    def group(self) -> str:
        return self._subscription.group

    @property
    def channels(self) -> tuple[str, ...]:
        return self._subscription.channels

    @property
    def in_flight(self) -> int:
        return 0 if self._flight is None else self._flight.unhandled

    @property
    def oldest_s(self) -> float:
        """How long the message that has been handled longest has been with its handler, in seconds."""
        if self._flight is None or not self._flight.count:
            return 0.0
        return self._watch.oldest_s(time.monotonic())

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                if self._flight is None or self._receiver is None:
                    await self.subscribe()
                else:
                    await self._round(self._receiver, self._flight)
                failures = 0
                if self._flight is not None and self._flight.stopped is not None:
                    await self._halt(self._flight.stopped)
                    return
            except Exception as error:
                failures += 1
                self._report(error, failures)
                if failures >= PATIENCE or (self._flight is not None and self._flight.broken is not None):
                    await self._give_up_receiver()
                if not await self._pauses(REST.wait_s(failures)):
                    return

    async def _round(self, receiver: Receiver, flight: Flight) -> None:
        flowing, self._flowing = self._flowing, False
        if flight.broken is not None:
            raise flight.broken
        flight.collect()
        if not flowing:
            await flight.settle()
        if flight.count:
            await self._beat(receiver)
        room = flight.room(self._pace.window)
        if room <= 0:
            await flight.settle()
            if flight.room(self._pace.window) <= 0:
                await flight.progress(BEAT / 2)
            return
        wait = 0.0 if flowing else BUSY_WAIT if flight.count else IDLE_WAIT
        messages = await self._damage.receive(receiver, room, wait)
        self._flowing = len(messages) >= FLOW
        if messages:
            flight.take(messages)
        if flowing:
            # The lanes work on these while those before them are being acknowledged.
            await flight.settle()
        elif messages:
            # The lanes go first: what they finish without waiting is acknowledged in the next round.
            await asyncio.sleep(0)

    async def _beat(self, receiver: Receiver) -> None:
        now = time.monotonic()
        if now - self._beat_at >= BEAT:
            self._beat_at = now
            if self._flight is not None:
                self._watch.look(self._flight.places, now)
            await receiver.extend()

    def _report(self, error: Exception, failures: int) -> None:
        """Once in full, then as a short line."""
        log.log(
            logging.ERROR if failures == 1 else logging.WARNING,
            "Receiving failed, it is tried again.",
            exc_info=error if failures == 1 else None,
            extra={
                "group": self._subscription.group,
                "channels": self._subscription.channels,
                "error_code": code_of(error),
                "failures": failures,
            },
        )

    async def _give_up_receiver(self) -> None:
        """What it had in flight is delivered again, so its handlers end here."""
        receiver, flight = self._receiver, self._flight
        self._receiver = self._flight = None
        self._watch.forget()
        if flight is not None:
            await flight.stop()
        if receiver is not None:
            with contextlib.suppress(Exception):
                await receiver.close()
        if flight is not None:
            flight.write_off()

    async def _halt(self, why: Exception) -> None:
        """An endpoint wants no more messages. Leave the group, so that others may try."""
        await self._leave()
        if self._halted is not None:
            self._halted(self.group, why)

    def halt(self) -> None:
        """Stop without being waited for: the group was stopped by another consumer of the client."""
        if self._halting is None:
            self._halting = asyncio.create_task(self._stop())

    async def stop(self) -> None:
        """Receive nothing more, let running handlers finish, acknowledge them, leave the group."""
        if self._halting is not None:
            await asyncio.wait((self._halting,))
        await self._stop()

    async def _stop(self) -> None:
        # Handlers may notice the end of the program only now, and are not ended by themselves.
        self._torn_down = self._is_torn_down()
        self._stopping = True
        if self._task is not None:
            await end(self._task)
        await self._leave()

    async def _leave(self) -> None:
        receiver, flight = self._receiver, self._flight
        self._receiver = self._flight = None
        if receiver is None or flight is None:
            return
        try:
            await flight.drain(self._pace.drain_timeout, BEAT)
        except Exception as error:
            self._report(error, 1)
        finally:
            await flight.stop()
            with contextlib.suppress(Exception):
                await receiver.close()
            flight.write_off()
