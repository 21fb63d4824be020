"""What a member holds of one partition: what waits to be delivered, and what was."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from dragoman.adapters.kafka.reading import Fetched
from dragoman.core.message import Message
from dragoman.core.run import Listed, Run


@dataclass(slots=True)
class Holding:
    """Offsets below ``done`` are acknowledged, those from there to ``cursor`` are in flight.

    ``flying`` are those in flight, so that they can be given back without fetching them again. ``queue`` was
    fetched and not delivered; ``next`` is what the consumer should bring next.
    """

    done: int
    cursor: int
    next: int
    flying: deque[Fetched] = field(default_factory=deque)
    queue: deque[Fetched] = field(default_factory=deque)
    attempts: dict[int, int] = field(default_factory=dict)
    paused: bool = False
    room_at: int | None = None
    """Set when the queue was trimmed: nothing more is fetched until only so many messages wait in it."""
    waits_until: float = 0.0
    leaving: bool = False

    @classmethod
    def starting(cls, offset: int) -> Holding:
        return cls(offset, offset, offset)

    @property
    def busy(self) -> bool:
        return self.cursor > self.done

    @property
    def waiting(self) -> int:
        return sum(map(len, self.queue))

    @property
    def full(self) -> bool:
        return self.room_at is not None and self.waiting > self.room_at

    @property
    def waiting_bytes(self) -> int:
        return sum(run.size for run in self.queue)

    def keep(self, run: Fetched) -> None:
        self.queue.append(run)
        self.next = _end(run)

    def filled(self, messages: float, size: float) -> float:
        """How much of a share of so many messages and bytes the queue takes."""
        return max(self.waiting / max(messages, 1), self.waiting_bytes / max(size, 1))

    def trim(self, messages: float, size: float) -> None:
        """Drop messages from the end until the rest fits into the share. The first message always stays.

        What was dropped has to be fetched again, from ``next`` on.
        """
        while self.waiting > 1 and self.filled(messages, size) > 1:
            last = self.queue.pop()
            if len(last) > 1:
                self.queue.append(last.split(len(last) // 2)[0])
            self.next = _end(self.queue[-1])
        self.room_at = self.waiting // 2

    def deliver(self, limit: int) -> Sequence[Run]:
        taken: list[Fetched] = []
        while self.queue and limit > 0:
            run = self.queue.popleft()
            if len(run) > limit:
                run, rest = run.split(limit)
                self.queue.appendleft(rest)
            limit -= len(run)
            taken.append(run)
        if taken:
            self.cursor = _end(taken[-1])
            self.flying.extend(taken)
        return [Listed(list(map(self._counted, run))) for run in taken] if self.attempts else taken

    def _counted(self, message: Message) -> Message:
        tried = self.attempts.get(message.offset or 0, 0)
        return message._replace(attempt=tried + 1) if tried else message

    def finish(self, offset: int) -> None:
        """This one and all before it are done."""
        self.done = max(self.done, offset + 1)
        while self.flying and _end(self.flying[0]) <= self.done:
            self.flying.popleft()
        if self.attempts:
            self.attempts = {kept: count for kept, count in self.attempts.items() if kept > offset}

    def give_back(self, offsets: Sequence[int]) -> None:
        """These were tried; they and all behind the first of them come again."""
        first = min(offsets)
        for offset in offsets:
            self.attempts[offset] = self.attempts.get(offset, 0) + 1
        while self.flying and _end(self.flying[-1]) > first:
            run = self.flying.pop()
            at = bisect_left(run.offsets, first, key=lambda offset: offset or 0)
            if at:
                kept, run = run.split(at)
                self.flying.append(kept)
            self.queue.appendleft(run)
        self.cursor = min(self.cursor, first)


def _end(run: Run) -> int:
    """The offset after its last message."""
    return (run.offsets[-1] or 0) + 1
