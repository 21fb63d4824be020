"""What one receiver has delivered and what is not settled yet."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

from dragoman.client.cancellation import ENDING, failure_of, take_back_cancellation
from dragoman.client.histogram import LEAST
from dragoman.client.lane import Batching, Direct, Intake, Lane, Place, Reading, Stretch
from dragoman.client.outcome import Outcome, kept
from dragoman.client.transactional.brokered import RECEIVER
from dragoman.core.broker import HoldingReceiver, LeavingReceiver, Receiver
from dragoman.core.ending import end
from dragoman.core.errors import ClientError, Revoked
from dragoman.core.message import Message
from dragoman.core.run import Entry, Run, message_at, offset_of, runs_of

log = logging.getLogger("dragoman.client")

_OURS_FOR = 0.001
"""Seconds until the receiver is asked again whether a partition is still ours: not for each quick message."""
_SETTLE_EVERY = 0.05
"""Seconds between acknowledgements while handlers end that were running when the client was closed."""
_AHEAD = 32
"""So many values are read at once."""


class Flight:
    """Takes deliveries, has them handled, and settles them with the receiver when the loop says so.

    ``count`` is how many are in flight, some of them handled since the last ``collect``; ``waiting`` of them
    for others to come, without which they cannot be handled. Handlers run in lanes, each lane a task while
    it has work, so that a handler which never waits costs no task of its own.
    """

    def __init__(
        self,
        receiver: Receiver,
        cumulative: bool,
        intakes: Mapping[str, Intake],
        torn_down: Callable[[], bool] = lambda: False,
    ) -> None:
        """``torn_down`` is true if the whole event loop ends, without the client being closed first."""
        self.count = 0
        self.waiting = 0
        self._receiver = receiver
        self._holding = receiver if isinstance(receiver, HoldingReceiver) else None
        self._leaving = receiver if isinstance(receiver, LeavingReceiver) else None
        self._cumulative = cumulative
        self._intakes = intakes
        self._places: dict[tuple[str, int | None], Place] = {}
        self._done: list[Message] = []
        self._finished: dict[Place, None] = {}
        self._returned: list[tuple[Message, float]] = []
        self._progress: asyncio.Future[None] | None = None
        self.stopped: Exception | None = None
        """Why nothing more is to be handled."""
        self.broken: Exception | None = None
        """Why a lane has ended early. What is in flight is safe with a new receiver only."""
        self._torn_down = torn_down
        self._ending = False
        self._written_off = False

    @property
    def places(self) -> Collection[Place]:
        return self._places.values()

    @property
    def unhandled(self) -> int:
        """How many of those in flight wait for their handlers, or for these to end."""
        return max(0, self.count - sum(place.done for place in self._places.values()))

    def take(self, messages: Sequence[Message]) -> None:
        if self.stopped is not None or self.broken is not None:
            return
        for run in runs_of(messages):
            place = self._places.get((run.channel, run.partition))
            if place is None:
                place = Place(self._intakes[run.channel], self._cumulative)
                self._places[run.channel, run.partition] = place
            taken = place.take(run)
            place.intake.counters.received += len(run)
            place.intake.counters.ignored += len(run) - taken
            place.count += taken
            self.count += taken
            for lane in place.lanes:
                if lane.task is None and len(lane):
                    lane.task = asyncio.create_task(self._work(place, lane))

    async def _work(self, place: Place, lane: Lane) -> None:
        RECEIVER.set(self._receiver)
        ENDING.set(self._is_ending)
        try:
            if place.intake.batch is None:
                while (stretch := lane.next()) is not None:
                    place.worked.append(stretch)
                    await self._work_on(stretch, place)
            else:
                await self._work_in_batches(place, lane, place.intake.batch)
        except BaseException as error:
            # Without this, the success of a later message would acknowledge this one, too.
            left_out = lane.leave_out()
            if place.intake.batch is None:
                place.intake.counters.returned += left_out
            if not (isinstance(error, asyncio.CancelledError) and self._is_ending()):
                self._break(error)
            if not isinstance(error, Exception):
                if not isinstance(error, GeneratorExit) and (task := asyncio.current_task()) is not None:
                    task.add_done_callback(_retrieve)
                raise
        finally:
            lane.task = None
            self._tell_progress()

    def _is_ending(self) -> bool:
        return self._ending or self._torn_down()

    def _break(self, error: BaseException) -> None:
        """Have the loop open a new receiver, which is given all that is not acknowledged."""
        if self.broken is None:
            self.broken = ClientError(
                f"Handling messages broke off: {type(error).__qualname__}.",
                code="client.broken-off",
                next="Nothing to do: what was in flight is delivered again.",
            )
            self.broken.__cause__ = error
        for place in self._places.values():
            place.clear()

    async def _work_on(self, stretch: Stretch, place: Place) -> None:
        intake, run, lost = place.intake, stretch.run, self._receiver.lost
        handle, observe = intake.handle, intake.latency.observe
        direct = intake.direct if run.plain else None
        cancelling = _cancelling()
        asked, started = 0.0, perf_counter()
        while stretch.begun < stretch.end:
            at = stretch.places[stretch.begun]
            if started - asked > _OURS_FOR:
                asked = started
                if lost(run.one(at)):
                    stretch.begun += 1
                    self._forget(place, stretch.leave_out())
                    asked = 0.0
                    continue
            if direct is not None:
                found = _read(direct, stretch)
                if found is not None:
                    await self._hand_over(*found, direct, stretch, place)
                    started = perf_counter()
                    continue
            stretch.begun += 1
            try:
                outcome = await handle(run.messages[at])
            except BaseException as error:
                outcome = kept(run.one(at), await failure_of(error))
            ended = perf_counter()
            observe(ended - started)
            started = ended
            self._came_out(stretch, place, outcome)
            if cancelling():
                await take_back_cancellation()

    async def _hand_over(
        self,
        function: Callable[[Any], Awaitable[object]],
        values: Sequence[Any],
        direct: Direct,
        stretch: Stretch,
        place: Place,
    ) -> None:
        """Let an endpoint's function handle the next messages, of which these are the values.

        One turn of this loop is what each message costs beside its reading and its handler.
        """
        begun, counters, latency = stretch.begun, place.intake.counters, place.intake.latency
        cancelling = _cancelling()
        quick, slow = 0, 0.0
        first = asked = started = perf_counter()
        try:
            for value in values:
                if begun >= stretch.end:
                    return
                if started - asked > _OURS_FOR:
                    asked = started
                    if self._receiver.lost(stretch.run.one(stretch.places[begun])):
                        return
                stretch.begun = begun = begun + 1
                try:
                    await function(value)
                except BaseException as error:
                    failure = await failure_of(error)
                else:
                    counters.handled += 1
                    stretch.ended = begun
                    ended = perf_counter()
                    if ended - started <= LEAST:
                        quick += 1
                    else:
                        latency.observe(ended - started)
                        slow += ended - started
                    started = ended
                    if self._progress is not None:
                        self._tell_progress()
                    if cancelling():
                        await take_back_cancellation()
                    continue
                entry = stretch.run, stretch.places[begun - 1]
                outcome = await _failed(entry, failure, direct)
                ended = perf_counter()
                latency.observe(ended - started)
                slow += ended - started
                started = ended
                self._came_out(stretch, place, outcome)
        finally:
            latency.observe_quick(quick, started - first - slow)

    def _came_out(self, stretch: Stretch, place: Place, outcome: Outcome) -> None:
        """What is to become of the message begun last."""
        if outcome.acknowledge:
            stretch.ended = stretch.begun
            self._tell_progress()
        else:
            self._unfinished(place, stretch.leave_out(), outcome)

    async def _work_in_batches(self, place: Place, lane: Lane, batch: Batching) -> None:
        while len(lane):
            try:
                await lane.filled(batch.size, batch.wait)
            except asyncio.CancelledError as error:
                # A handler may have had its task cancelled some time later.
                await failure_of(error)
                continue
            entries: list[Entry] = []
            # Revoked messages are dropped together. The later ones would otherwise be handled before the
            # earlier ones, which may be delivered again at the next await.
            while some := lane.begin(batch.size - len(entries)):
                for entry in some:
                    if self._receiver.lost(message_at(entry)):
                        self._forget(place, entry)
                    else:
                        entries.append(entry)
            if not entries:
                continue
            messages = [run.messages[at] for run, at in entries]
            started = perf_counter()
            outcomes: Sequence[Outcome]
            lane.batch = entries
            try:
                outcomes = await batch.handle(messages)
            except BaseException as error:
                try:
                    failure = await failure_of(error)
                except BaseException:
                    place.intake.counters.returned += len(messages)
                    raise
                outcomes = [kept(message, failure) for message in messages]
            finally:
                lane.batch = ()
            place.intake.latency.observe(perf_counter() - started)
            for entry, outcome in zip(entries, outcomes, strict=True):
                if outcome.acknowledge:
                    self._finish(place, entry[0], [entry[1]])
                else:
                    self._unfinished(place, entry, outcome)
            self._tell_progress()
            await take_back_cancellation()

    def _unfinished(self, place: Place, entry: Entry, outcome: Outcome) -> None:
        if outcome.later is not None:
            self.waiting += 1
            place.waiting += 1
            outcome.later.add_done_callback(lambda later: self._told(place, entry, later))
            return
        place.intake.counters.returned += not outcome.counted
        self._give_back(place, entry, outcome.delay)
        if outcome.stop is not None:
            self.stopped = self.stopped or outcome.stop
            for each in self._places.values():
                each.clear()

    def _told(self, place: Place, entry: Entry, later: asyncio.Future[Outcome]) -> None:
        if self._written_off:
            return
        self.waiting -= 1
        place.waiting -= 1
        if later.cancelled():
            # It came again, and by a watermark that one counts: this delivery had been given back.
            if place.watermark is None:
                self._forget(place, entry)
            else:
                place.intake.counters.returned += 1
        elif later.result().acknowledge:
            self._finish(place, entry[0], [entry[1]])
            self._tell_progress()
        else:
            self._unfinished(place, entry, later.result())

    def _finish(self, place: Place, run: Run, places: Sequence[int]) -> None:
        if place.watermark is None:
            self._done += [run.messages[at] for at in places]
            self._leave(place, len(places))
        elif finished := place.watermark.finish_run(run, places):
            self._finished[place] = None
            self._leave(place, finished)

    def _leave(self, place: Place, messages: int) -> None:
        """So many are not in flight any more."""
        place.count -= messages
        self.count -= messages

    def room(self, window: int) -> int:
        """How many messages may be received now.

        A quarter of the window is divided among the partitions; the rest is for the first that need it. A
        partition that has its own part, when the common part is used up, is not received from. So
        partitions that stand still always leave something to the others. Only partitions that are added
        while the window is full may exceed it, by their own parts.
        """
        free, holding = window - self.count + self.waiting, self._holding
        if holding is None or window < 2:
            return free
        if not self.count:
            holding.hold(())
            partitions = max(1, holding.partitions)
            own = max(1, window // (4 * partitions))
            return max(own, window - own * (partitions - 1))
        places = [(place, each.count - each.waiting) for place, each in self._places.items() if each.count]
        partitions = max(holding.partitions, len(places))
        if partitions < 2:
            holding.hold(())
            return free
        own = max(1, window // (4 * partitions))
        common = window - own * partitions - sum(count - own for _, count in places if count > own)
        if common >= own:
            holding.hold(())
            return common + max(0, own - max((count for _, count in places), default=0))
        if self._forget_revoked():
            return self.room(window)
        held = {place for place, count in places if count >= own}
        holding.hold(held)
        # Those that have moved away may still have handlers, and are none of the receiver's partitions.
        revoked = sum(map(self._is_revoked, self._places.values()))
        if len(held) >= max(partitions, holding.partitions + revoked):
            return 0
        room = own - max((count for place, count in places if place not in held), default=0)
        return room if partitions <= window else min(room, free)

    def _forget_revoked(self) -> bool:
        """Drop what waits of partitions that have moved to other members; whether anything did.

        Each lane drops its own when it comes to them, which a handler that hangs may prevent.
        """
        found = False
        for place in self._places.values():
            first = place.first_waiting()
            if first is not None and self._receiver.lost(message_at(first)):
                self._leave(place, place.revoke(offset_of(first)))
                found = True
        return found

    def _is_revoked(self, place: Place) -> bool:
        """Whether a partition has moved to another member, though handlers are at its messages."""
        entry = next((each for lane in place.lanes for each in lane.running), None)
        return entry is not None and self._receiver.lost(message_at(entry))

    def collect(self) -> None:
        """Note what the lanes have finished. They leave it where it lies: all at once is cheaper."""
        for place in self._places.values():
            for stretch in place.worked:
                if stretch.done:
                    self._finish(place, stretch.run, stretch.note())
            if place.worked:
                place.worked = [each for each in place.worked if not each.over]

    def _forget(self, place: Place, entry: Entry) -> None:
        place.intake.counters.revoked += 1
        if place.watermark is None or place.watermark.forget(offset_of(entry)):
            self._leave(place, 1)
            if place.watermark is not None:
                self._finished[place] = None

    def _give_back(self, place: Place, entry: Entry, delay: float) -> None:
        if place.watermark is None:
            self._leave(place, 1)
        elif place.watermark.holds(offset_of(entry)):
            self._leave(place, place.give_back(offset_of(entry)))
        else:
            return
        self._returned.append((message_at(entry), delay))
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
        if self._leaving is not None:
            self._make_way(self._leaving.leaving)
        if self._finished or self._done:
            await self._acknowledge()
        if self._returned:
            await self._release()

    def _make_way(self, leaving: Collection[tuple[str, int | None]]) -> None:
        """Give back what is not begun of partitions that move, so that nothing of it is handled twice.

        With cumulative acknowledgement, what comes before a message that was begun has to be handled here.
        """
        for where in leaving:
            place = self._places.get(where)
            if place is not None and place.watermark is not None:
                first = place.first_after_gaps()
                if first is not None:
                    self._give_back(place, first, 0.0)

    async def _acknowledge(self) -> None:
        done, self._done = self._done, []
        marks: list[tuple[Place, Entry]] = []
        for place in self._finished:
            mark = None if place.watermark is None else place.watermark.collect()
            if mark is not None:
                marks.append((place, mark))
        self._finished.clear()
        batch = [*done, *(message_at(mark) for _, mark in marks)]
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
                    self._finished[place] = None
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
        """Wait for running handlers, end those that take too long, settle.

        Of the queued messages, only those are still handled that have a later one of their partition handled
        or running already: with cumulative acknowledgement that one would be delivered again otherwise. The
        others stay unacknowledged: the broker gives them to another member.
        """
        self.collect()
        for place in self._places.values():
            place.close_gaps()
        loop = asyncio.get_running_loop()
        beaten = loop.time()
        deadline = beaten + timeout
        while (running := self._running()) and (now := loop.time()) < deadline:
            await asyncio.wait(running, timeout=min(_SETTLE_EVERY, deadline - now))
            # What fails is tried again, and the handlers go on. The last attempt, below, tells.
            with contextlib.suppress(Exception):
                # At once: a partition may move before the last handler has ended.
                await self.settle()
                if loop.time() - beaten >= beat:
                    beaten = loop.time()
                    await self._receiver.extend()
        await self.stop()
        await self.settle()

    async def stop(self) -> None:
        """End all handlers at once. Their messages stay unacknowledged.

        One that takes long to tidy up is told again every few seconds: it may not have noticed.
        """
        for place in self._places.values():
            place.clear()
        self._ending = True
        running = self._running()
        if running:
            endpoints = {place.intake.name for place in self._places.values() if _is_running(place)}
            log.warning(
                "Handlers were ended before they had finished.",
                extra={"handlers": len(running), "endpoints": ", ".join(sorted(endpoints))},
            )
            await end(*running)

    def write_off(self) -> None:
        """The receiver is closed: what still waits for others is delivered again."""
        self._written_off = True
        for place in self._places.values():
            place.intake.counters.returned += place.waiting

    def _lanes(self) -> Iterable[Lane]:
        return (lane for place in self._places.values() for lane in place.lanes)

    def _running(self) -> list[asyncio.Task[None]]:
        return [lane.task for lane in self._lanes() if lane.task is not None and not lane.task.done()]


def _is_running(place: Place) -> bool:
    return any(lane.task is not None and not lane.task.done() for lane in place.lanes)


def _read(direct: Direct, stretch: Stretch) -> Reading | None:
    """The next values. A codec that fails as none should is met on the long way, where all is dealt with."""
    try:
        return direct.read(stretch.run, stretch.next(_AHEAD))
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException:
        return None


async def _failed(entry: Entry, error: Exception, direct: Direct) -> Outcome:
    """What becomes of a message for whose value the endpoint's function has raised this."""
    message = message_at(entry)
    try:
        return await direct.failed(message, error)
    except BaseException as failure:
        return kept(message, await failure_of(failure))


def _cancelling() -> Callable[[], int]:
    """How often the current task was cancelled."""
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling


def _retrieve(task: asyncio.Task[None]) -> None:
    """What ends the program is reported by the program, not by the task."""
    if not task.cancelled():
        task.exception()
