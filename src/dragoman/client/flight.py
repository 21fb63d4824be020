"""What one receiver has delivered and what is not settled yet."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from time import perf_counter

from dragoman.client.cancellation import as_failure
from dragoman.client.lane import Intake, Lane, Place
from dragoman.client.outcome import Outcome, kept
from dragoman.client.transactional.brokered import RECEIVER
from dragoman.core.broker import Receiver
from dragoman.core.errors import Revoked
from dragoman.core.message import Message, place_of

log = logging.getLogger("dragoman.client")

_OURS_FOR = 0.001
"""Seconds until the receiver is asked again whether a partition is still ours: not for each quick message."""


class Flight:
    """Takes deliveries, has them handled, and settles them with the receiver when the loop says so.

    ``count`` is how many are in flight, as of the last ``collect``; ``waiting`` of them for others to come,
    without which they cannot be handled. Handlers run in lanes, each lane a task while it has work, so that a
    handler which never waits costs no task of its own.
    """

    def __init__(self, receiver: Receiver, cumulative: bool, intakes: Mapping[str, Intake]) -> None:
        self.count = 0
        self.waiting = 0
        self._receiver = receiver
        self._cumulative = cumulative
        self._intakes = intakes
        self._places: dict[tuple[str, int | None], Place] = {}
        self._done: list[Message] = []
        self._finished: set[Place] = set()
        self._returned: list[tuple[Message, float]] = []
        self._progress: asyncio.Future[None] | None = None
        self.stopped: Exception | None = None
        """Why nothing more is to be handled."""

    @property
    def unhandled(self) -> int:
        """How many of those in flight wait for their handlers, or for these to end."""
        return max(0, self.count - sum(len(place.done) for place in self._places.values()))

    def take(self, messages: Sequence[Message]) -> None:
        if self.stopped is not None:
            return
        for (channel, partition), run in groupby(messages, place_of):
            place = self._places.get((channel, partition))
            if place is None:
                place = Place(self._intakes[channel], self._cumulative)
                self._places[channel, partition] = place
            came = list(run)
            place.intake.counters.received += len(came)
            self.count += place.take(came)
            for lane in place.lanes:
                if lane.queue and lane.task is None:
                    work = self._work if place.intake.batch is None else self._work_in_batches
                    lane.task = asyncio.create_task(work(place, lane))

    async def _work(self, place: Place, lane: Lane) -> None:
        RECEIVER.set(self._receiver)
        queue, finish, handle = lane.queue, place.done.append, place.intake.handle
        lost, observe = self._receiver.lost, place.intake.latency.observe
        asked, started = 0.0, perf_counter()
        try:
            while queue:
                message = queue.popleft()
                if started - asked > _OURS_FOR:
                    asked = started
                    if lost(message):
                        self._forget(place, message)
                        asked = 0.0
                        continue
                try:
                    outcome = await handle(message)
                except asyncio.CancelledError as error:
                    outcome = kept(message, as_failure(error))
                except Exception as error:
                    outcome = kept(message, error)
                ended = perf_counter()
                observe(ended - started)
                started = ended
                if not outcome.acknowledge:
                    self._unfinished(place, message, outcome)
                    continue
                finish(message)
                if self._progress is not None:
                    self._tell_progress()
        finally:
            lane.task = None
            self._tell_progress()

    async def _work_in_batches(self, place: Place, lane: Lane) -> None:
        RECEIVER.set(self._receiver)
        batch = place.intake.batch
        assert batch is not None
        try:
            while lane.queue:
                await lane.filled(batch.size, batch.wait)
                taken = [lane.queue.popleft() for _ in range(min(batch.size, len(lane.queue)))]
                messages = []
                for message in taken:
                    if self._receiver.lost(message):
                        self._forget(place, message)
                    else:
                        messages.append(message)
                if not messages:
                    continue
                started = perf_counter()
                outcomes: Sequence[Outcome]
                try:
                    outcomes = await batch.handle(messages)
                except asyncio.CancelledError as error:
                    failure = as_failure(error)
                    outcomes = [kept(message, failure) for message in messages]
                except Exception as error:
                    outcomes = [kept(message, error) for message in messages]
                place.intake.latency.observe(perf_counter() - started)
                for message, outcome in zip(messages, outcomes, strict=True):
                    if outcome.acknowledge:
                        place.done.append(message)
                    else:
                        self._unfinished(place, message, outcome)
                self._tell_progress()
        finally:
            lane.task = None
            self._tell_progress()

    def _unfinished(self, place: Place, message: Message, outcome: Outcome) -> None:
        if outcome.later is not None:
            self.waiting += 1
            outcome.later.add_done_callback(lambda later: self._told(place, message, later))
            return
        self._give_back(place, message, outcome.delay)
        if outcome.stop is not None:
            self.stopped = self.stopped or outcome.stop
            for lane in self._lanes():
                lane.clear()

    def _told(self, place: Place, message: Message, later: asyncio.Future[Outcome]) -> None:
        self.waiting -= 1
        if later.cancelled():
            self._forget(place, message)
        elif later.result().acknowledge:
            self._finish(place, [message])
            self._tell_progress()
        else:
            self._unfinished(place, message, later.result())

    def _finish(self, place: Place, messages: list[Message]) -> None:
        if place.watermark is None:
            self._done += messages
            self.count -= len(messages)
        elif finished := place.watermark.finish_run(messages):
            self._finished.add(place)
            self.count -= finished

    def collect(self) -> None:
        """Note what the lanes have finished. They leave it where it lies: all at once is cheaper."""
        for place in self._places.values():
            if place.done:
                self._finish(place, place.done)
                place.done.clear()

    def _forget(self, place: Place, message: Message) -> None:
        place.intake.counters.revoked += 1
        if place.watermark is None or place.watermark.forget(message.offset or 0):
            self.count -= 1
            if place.watermark is not None:
                self._finished.add(place)

    def _give_back(self, place: Place, message: Message, delay: float) -> None:
        if place.watermark is None:
            self.count -= 1
        elif place.watermark.holds(message.offset or 0):
            self.count -= place.give_back(message.offset or 0)
        else:
            return
        place.intake.counters.returned += 1
        self._returned.append((message, delay))
        self._tell_progress()

    def _tell_progress(self) -> None:
        waiter, self._progress = self._progress, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def progress(self, timeout: float) -> None:
        """Wait until something is finished, if nothing is that is not noted yet."""
        if any(place.done for place in self._places.values()):
            return
        self._progress = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._progress,), timeout=timeout)

    async def settle(self) -> None:
        """Acknowledge what is finished, give back what is not. What fails is kept for the next time."""
        self.collect()
        if self._finished or self._done:
            await self._acknowledge()
        if self._returned:
            await self._release()

    async def _acknowledge(self) -> None:
        done, self._done = self._done, []
        marks: list[tuple[Place, Message]] = []
        for place in self._finished:
            mark = None if place.watermark is None else place.watermark.collect()
            if mark is not None:
                marks.append((place, mark))
        self._finished.clear()
        batch = [*done, *(mark for _, mark in marks)]
        if not batch:
            return
        try:
            await self._receiver.acknowledge(batch)
        except Revoked as error:
            log.info("Some deliveries were taken over by another member.", extra=dict(error.where))
        except BaseException:
            self._done = done + self._done
            for place, mark in marks:
                if place.watermark is not None:
                    place.watermark.restore(mark)
                    self._finished.add(place)
            raise

    async def _release(self) -> None:
        while self._returned:
            message, delay = self._returned[0]
            with contextlib.suppress(Revoked):
                await self._receiver.release([message], delay)
            self._returned.pop(0)
            place = self._places[message.channel, message.partition]
            waiting = [
                other.offset or 0
                for other, _ in self._returned
                if (other.channel, other.partition) == (message.channel, message.partition)
            ]
            place.given_back = min(waiting, default=None)

    async def drain(self, timeout: float, beat: float) -> None:
        """Start nothing more, wait for running handlers, end those that take too long, settle.

        Queued messages stay unacknowledged: the broker gives them to another member.
        """
        for lane in self._lanes():
            lane.clear()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while (running := self._running()) and loop.time() < deadline:
            await asyncio.wait(running, timeout=min(beat, deadline - loop.time()))
            await self.settle()
            if self._running():
                await self._receiver.extend()
        await self.stop()
        await self.settle()

    async def stop(self) -> None:
        """End all handlers at once. Their messages stay unacknowledged."""
        for lane in self._lanes():
            lane.clear()
        running = self._running()
        for task in running:
            task.cancel()
        if running:
            log.warning("Handlers were ended before they had finished.", extra={"handlers": len(running)})
            await asyncio.wait(running)

    def _lanes(self) -> Iterable[Lane]:
        return (lane for place in self._places.values() for lane in place.lanes)

    def _running(self) -> list[asyncio.Task[None]]:
        return [lane.task for lane in self._lanes() if lane.task is not None]
