"""Where messages queue for their handlers: one at a time in a lane, the lanes side by side."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import Outcome
from dragoman.client.watermark import Watermark
from dragoman.core.message import Message


@dataclass(frozen=True, slots=True)
class Intake:
    """How the messages of one channel are handled."""

    handle: Callable[[Message], Awaitable[Outcome]]
    concurrency: int
    counters: ChannelMetrics


class Lane:
    """Messages that must not overtake each other. ``task`` works on them while there are any."""

    __slots__ = ("queue", "task")

    def __init__(self) -> None:
        self.queue: deque[Message] = deque()
        self.task: asyncio.Task[None] | None = None


class Place:
    """One partition of one channel: its lanes, and its watermark if acknowledging is cumulative.

    From ``given_back`` on, messages are about to be released to the broker, which delivers them again.
    """

    __slots__ = ("_turn", "given_back", "intake", "lanes", "watermark")

    def __init__(self, intake: Intake, cumulative: bool) -> None:
        self.intake = intake
        self.lanes = [Lane() for _ in range(intake.concurrency)]
        self.watermark = Watermark() if cumulative else None
        self.given_back: int | None = None
        self._turn = 0

    def accepts(self, message: Message) -> bool:
        """Whether this delivery is to be handled: not while it, or one before it, is being given back."""
        offset = message.offset
        if self.watermark is None or offset is None:
            return True
        if self.given_back is not None and offset >= self.given_back:
            return False
        return self.watermark.take(offset)

    def lane_of(self, message: Message) -> Lane:
        """Messages of one key share a lane; those without a key take turns."""
        lanes = self.lanes
        if len(lanes) == 1:
            return lanes[0]
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
