"""Where messages queue for their handlers: one at a time in a lane, the lanes side by side."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dragoman.client.histogram import Histogram
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import Outcome
from dragoman.client.watermark import Watermark
from dragoman.core.message import Message
from dragoman.core.run import Entry, Run, offset_of


@dataclass(frozen=True, slots=True)
class Batching:
    """Messages are handled many at a time, up to ``size``; one waits at most ``wait`` seconds for others."""

    handle: Callable[[Sequence[Message]], Awaitable[Sequence[Outcome]]]
    size: int
    wait: float


Reading: TypeAlias = tuple[Callable[[Any], Awaitable[object]], Sequence[Any]]
"""An endpoint's function, and values for it."""


@dataclass(frozen=True, slots=True)
class Direct:
    """The shortest way: an endpoint's function and its values, without anything of ours between."""

    read: Callable[[Run, Sequence[int]], Reading | None]
    """The function, and its values for these messages or for the first of them; ``None`` if it has none."""
    failed: Callable[[Message, Exception], Awaitable[Outcome]]
    """What becomes of a message for whose value that function has raised this."""


@dataclass(frozen=True, slots=True)
class Intake:
    """How the messages of one channel are handled."""

    handle: Callable[[Message], Awaitable[Outcome]]
    concurrency: int
    counters: ChannelMetrics
    batch: Batching | None = None
    latency: Histogram = field(default_factory=Histogram)
    direct: Direct | None = None
    name: str = ""
    """Of the endpoints."""


class Stretch:
    """Messages of one run in one lane, by their places in the run.

    Messages before ``begun`` were given to the handler, in this order. Those in ``[begun, end)`` wait and may
    be taken back. Those in ``[noted, ended)`` and in ``others`` are handled, but the watermark does not know
    yet. When a stretch is ``over``, it does not change any more.
    """

    __slots__ = ("begun", "end", "ended", "noted", "others", "over", "places", "run")

    def __init__(self, run: Run, places: Sequence[int]) -> None:
        self.run = run
        self.places = places
        self.noted = self.ended = self.begun = 0
        self.end = len(places)
        self.others: list[int] = []
        self.over = False

    @property
    def left(self) -> int:
        """How many wait."""
        return self.end - self.begun

    @property
    def done(self) -> int:
        """How many are handled and not noted."""
        return self.ended - self.noted + len(self.others)

    def next(self, limit: int) -> Sequence[int]:
        """The first of those that wait."""
        return self.places[self.begun : min(self.begun + limit, self.end)]

    def leave_out(self) -> Entry:
        """The one begun last is not done, though those after it may be."""
        self.others += self.places[self.noted : self.ended]
        self.noted = self.ended = self.begun
        return self.run, self.places[self.begun - 1]

    def note(self) -> Sequence[int]:
        """What is handled and not noted; it is noted now."""
        found = self.places[self.noted : self.ended]
        if self.others:
            found = [*self.others, *found]
            self.others.clear()
        self.noted = self.ended
        return found

    def cut(self, offset: int) -> int:
        """Those from this offset on are not to be handled any more; how many of them waited."""
        offsets, left = self.run.offsets, self.left
        kept = [at for at in self.places[self.begun : self.end] if (offsets[at] or 0) < offset]
        self.places = (*self.places[: self.begun], *kept)
        self.end = len(self.places)
        return left - len(kept)

    def clear(self) -> int:
        """None is to be handled any more; how many waited."""
        left, self.end = self.left, self.begun
        return left


class Lane:
    """Messages that must not overtake each other. ``task`` works on them while there are any."""

    __slots__ = ("_current", "_is_draining", "_queue", "_waiter", "_wanted", "batch", "task")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.batch: Sequence[Entry] = ()
        """What is being handled together."""
        self._is_draining = False
        self._current: Stretch | None = None
        self._queue: deque[Stretch] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._wanted = 0

    def __len__(self) -> int:
        """How many messages wait."""
        return sum(each.left for each in self._stretches())

    def _stretches(self) -> Sequence[Stretch]:
        return self._queue if self._current is None else (self._current, *self._queue)

    @property
    def running(self) -> Sequence[Entry]:
        """The messages that are with the handler: one, or a batch."""
        if self.batch:
            return self.batch
        current = self._current
        if self.task is None or current is None or current.begun <= current.ended:
            return ()
        return ((current.run, current.places[current.begun - 1]),)

    def waiting(self) -> Iterator[Entry]:
        """The messages that are not begun."""
        for each in self._stretches():
            for at in each.next(each.left):
                yield each.run, at

    def extend(self, stretch: Stretch) -> None:
        self._queue.append(stretch)
        if self._waiter is not None and len(self) >= self._wanted:
            self._wake()

    def next(self) -> Stretch | None:
        """The one to work on: it has messages that are not begun."""
        while self._current is None or not self._current.left:
            if self._current is not None:
                self._current.over = True
            self._current = self._queue.popleft() if self._queue else None
            if self._current is None:
                break
        return self._current

    def begin(self, limit: int) -> list[Entry]:
        """The next messages, to be handled together: ``batch`` has them while they are."""
        entries: list[Entry] = []
        while len(entries) < limit and (stretch := self.next()) is not None:
            some = stretch.next(limit - len(entries))
            stretch.begun += len(some)
            stretch.noted = stretch.ended = stretch.begun
            entries += [(stretch.run, at) for at in some]
        return entries

    def leave_out(self) -> bool:
        """The message that is being handled is not done, and never will be in this flight.

        ``False`` if none is.
        """
        if self._current is None or self._current.begun <= self._current.ended:
            return False
        self._current.leave_out()
        return True

    def cut(self, offset: int) -> int:
        return sum(each.cut(offset) for each in self._stretches())

    def clear(self) -> int:
        left = sum(each.clear() for each in self._stretches())
        self._wake()
        return left

    def drain(self) -> None:
        """Nothing more will come: batches do not wait to be filled."""
        self._is_draining = True
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def filled(self, count: int, timeout: float) -> None:
        """Wait until so many messages queue, at most this long."""
        if self._is_draining or len(self) >= count:
            return
        self._waiter, self._wanted = asyncio.get_running_loop().create_future(), count
        await asyncio.wait((self._waiter,), timeout=timeout)
        self._waiter = None


class Place:
    """One partition of one channel: its lanes, and its watermark if acknowledging is cumulative.

    From ``given_back`` on, messages are about to be released to the broker, which delivers them again.
    """

    __slots__ = (
        "_turn",
        "count",
        "given_back",
        "intake",
        "lanes",
        "waiting",
        "watermark",
        "worked",
    )

    def __init__(self, intake: Intake, cumulative: bool) -> None:
        self.intake = intake
        self.lanes = [Lane() for _ in range(intake.concurrency)]
        self.watermark = Watermark() if cumulative else None
        self.given_back: int | None = None
        self.count = 0
        """How many are in flight; ``waiting`` of them for others to come."""
        self.waiting = 0
        self.worked: list[Stretch] = []
        """What the lanes work on, or have worked on and what is done of it is not noted yet."""
        self._turn = 0

    def take(self, run: Run) -> int:
        """Queue messages of this partition that came together; how many of them are to be handled."""
        chosen: Sequence[int] = range(len(run))
        if self.watermark is not None:
            offsets = run.offsets
            straight = self.given_back is None and None not in offsets
            if not (straight and self.watermark.take_run(offsets)):  # type: ignore[arg-type]
                chosen = [at for at in chosen if self._accepts(offsets[at])]
                if not chosen:
                    return 0
        if len(self.lanes) == 1:
            self.lanes[0].extend(Stretch(run, chosen))
        else:
            self._divide(run, chosen)
        return len(chosen)

    def _divide(self, run: Run, chosen: Sequence[int]) -> None:
        parts: dict[int, list[int]] = {}
        for at in chosen:
            parts.setdefault(self._lane_of(run.messages[at]), []).append(at)
        for number, places in parts.items():
            self.lanes[number].extend(Stretch(run, places))

    def _accepts(self, offset: int | None) -> bool:
        """Whether this delivery is to be handled: not while it, or one before it, is being given back."""
        if self.watermark is None or offset is None:
            return True
        if self.given_back is not None and offset >= self.given_back:
            return False
        return self.watermark.take(offset)

    def _lane_of(self, message: Message) -> int:
        """Messages of one key share a lane; those without a key take turns."""
        if message.key is None:
            self._turn += 1
            return self._turn % len(self.lanes)
        return hash(message.key) % len(self.lanes)

    @property
    def done(self) -> int:
        """How many are handled and not noted yet."""
        return sum(each.done for each in self.worked)

    @property
    def _furthest(self) -> int:
        """The highest offset that is handled or being handled; less than 0 if none is, or none counts."""
        if self.watermark is None:
            return -1
        running = [offset_of(entry) for lane in self.lanes for entry in lane.running]
        return max([self.watermark.furthest_finished, *running])

    def first_after_gaps(self) -> Entry | None:
        """The first message that comes after all that are handled or being handled."""
        return self.first_waiting(self._furthest)

    def first_waiting(self, furthest: int = -1) -> Entry | None:
        """The first message after this offset that is not begun."""
        entries = (entry for lane in self.lanes for entry in lane.waiting() if offset_of(entry) > furthest)
        return min(entries, key=offset_of, default=None)

    def close_gaps(self) -> None:
        """Handle nothing more but what comes before a message that is handled or being handled."""
        for lane in self.lanes:
            lane.drain()
        furthest = self._furthest
        if furthest < 0:
            self.clear()
        else:
            self.intake.counters.returned += self._cut(furthest)

    def clear(self) -> None:
        """Handle nothing more. What waits is delivered again, since it is never acknowledged."""
        self.intake.counters.returned += sum(lane.clear() for lane in self.lanes)

    def _cut(self, offset: int) -> int:
        return sum(lane.cut(offset) for lane in self.lanes)

    def revoke(self, offset: int) -> int:
        """This message and all later ones have gone to another member; how many of them were unfinished."""
        cut = self._cut(offset)
        self.intake.counters.revoked += cut
        return cut if self.watermark is None else self.watermark.cut(offset)

    def give_back(self, offset: int) -> int:
        """This message and all later ones are not ours any more; how many of them were unfinished."""
        self.given_back = offset if self.given_back is None else min(offset, self.given_back)
        self.intake.counters.returned += self._cut(offset)
        return 0 if self.watermark is None else self.watermark.cut(offset)
