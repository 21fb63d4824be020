"""Where messages queue for their handlers: one at a time in a lane, the lanes side by side."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dragoman.client.histogram import Histogram
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import Outcome
from dragoman.client.watermark import Watermark
from dragoman.core.message import Message


@dataclass(frozen=True, slots=True)
class Batching:
    """Messages are handled many at a time, up to ``size``; one waits at most ``wait`` seconds for others."""

    handle: Callable[[Sequence[Message]], Awaitable[Sequence[Outcome]]]
    size: int
    wait: float


@dataclass(frozen=True, slots=True)
class Intake:
    """How the messages of one channel are handled."""

    handle: Callable[[Message], Awaitable[Outcome]]
    concurrency: int
    counters: ChannelMetrics
    batch: Batching | None = None
    latency: Histogram = field(default_factory=Histogram)


class Lane:
    """Messages that must not overtake each other. ``task`` works on them while there are any."""

    __slots__ = ("_waiter", "_wanted", "queue", "task")

    def __init__(self) -> None:
        self.queue: deque[Message] = deque()
        self.task: asyncio.Task[None] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._wanted = 0

    def extend(self, messages: Iterable[Message]) -> None:
        self.queue.extend(messages)
        if self._waiter is not None and len(self.queue) >= self._wanted:
            self._wake()

    def clear(self) -> None:
        self.queue.clear()
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def filled(self, count: int, timeout: float) -> None:
        """Wait until so many messages queue, at most this long."""
        if len(self.queue) >= count:
            return
        self._waiter, self._wanted = asyncio.get_running_loop().create_future(), count
        await asyncio.wait((self._waiter,), timeout=timeout)
        self._waiter = None


class Place:
    """One partition of one channel: its lanes, and its watermark if acknowledging is cumulative.

    From ``given_back`` on, messages are about to be released to the broker, which delivers them again. Those
    in ``done`` are handled, and wait to be noted as that.
    """

    __slots__ = ("_turn", "done", "given_back", "intake", "lanes", "watermark")

    def __init__(self, intake: Intake, cumulative: bool) -> None:
        self.intake = intake
        self.lanes = [Lane() for _ in range(intake.concurrency)]
        self.watermark = Watermark() if cumulative else None
        self.given_back: int | None = None
        self.done: list[Message] = []
        self._turn = 0

    def take(self, run: list[Message]) -> int:
        """Queue messages of this partition that came together; how many of them are to be handled."""
        if self.watermark is not None:
            offsets = [message.offset for message in run]
            straight = self.given_back is None and None not in offsets
            if not (straight and self.watermark.take_run(offsets)):  # type: ignore[arg-type]
                run = [message for message in run if self._accepts(message)]
        if len(self.lanes) == 1:
            self.lanes[0].extend(run)
        else:
            for message in run:
                self._lane_of(message).extend((message,))
        return len(run)

    def _accepts(self, message: Message) -> bool:
        """Whether this delivery is to be handled: not while it, or one before it, is being given back."""
        offset = message.offset
        if self.watermark is None or offset is None:
            return True
        if self.given_back is not None and offset >= self.given_back:
            return False
        return self.watermark.take(offset)

    def _lane_of(self, message: Message) -> Lane:
        """Messages of one key share a lane; those without a key take turns."""
        lanes = self.lanes
        if message.key is None:
            self._turn += 1
            return lanes[self._turn % len(lanes)]
        return lanes[hash(message.key) % len(lanes)]

    def give_back(self, offset: int) -> int:
        """This message and all later ones are not ours any more; how many of them were unfinished."""
        self.given_back = offset if self.given_back is None else min(offset, self.given_back)
        for lane in self.lanes:
            kept = [message for message in lane.queue if (message.offset or 0) < offset]
            lane.queue.clear()
            lane.queue.extend(kept)
        return 0 if self.watermark is None else self.watermark.cut(offset)
