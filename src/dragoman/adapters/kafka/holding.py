"""What a member holds of one partition: what waits to be delivered, and what was."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dragoman.core.message import Message


@dataclass(slots=True)
class Holding:
    """Offsets below ``done`` are acknowledged, those from there to ``cursor`` are in flight.

    ``flying`` are those in flight, so that one can be given back without fetching it again. ``queue`` was
    fetched and not delivered; ``next`` is what the consumer should bring next.
    """

    done: int
    cursor: int
    next: int
    flying: deque[Message] = field(default_factory=deque)
    queue: deque[Message] = field(default_factory=deque)
    attempts: dict[int, int] = field(default_factory=dict)
    paused: bool = False
    waits_until: float = 0.0
    leaving: bool = False

    @classmethod
    def starting(cls, offset: int) -> Holding:
        return cls(offset, offset, offset)

    @property
    def busy(self) -> bool:
        return self.cursor > self.done

    def keep(self, messages: Iterable[Message]) -> None:
        """At least one, in order."""
        self.queue.extend(messages)
        self.next = (self.queue[-1].offset or 0) + 1

    def deliver(self, limit: int) -> list[Message]:
        queue = self.queue
        if limit >= len(queue):
            taken = list(queue)
            queue.clear()
        else:
            taken = [queue.popleft() for _ in range(limit)]
        if taken:
            self.cursor = (taken[-1].offset or 0) + 1
            self.flying.extend(taken)
        if self.attempts:
            taken = [self._counted(message) for message in taken]
        return taken

    def _counted(self, message: Message) -> Message:
        tried = self.attempts.get(message.offset or 0, 0)
        return message._replace(attempt=tried + 1) if tried else message

    def finish(self, offset: int) -> None:
        """This one and all before it are done."""
        self.done = max(self.done, offset + 1)
        flying = self.flying
        if flying and (flying[-1].offset or 0) <= offset:
            flying.clear()
        while flying and (flying[0].offset or 0) <= offset:
            flying.popleft()
        if self.attempts:
            self.attempts = {kept: count for kept, count in self.attempts.items() if kept > offset}

    def give_back(self, offsets: Sequence[int]) -> None:
        """These were tried; they and all behind the first of them come again."""
        first = min(offsets)
        for offset in offsets:
            self.attempts[offset] = self.attempts.get(offset, 0) + 1
        while self.flying and (self.flying[-1].offset or 0) >= first:
            self.queue.appendleft(self.flying.pop())
        self.cursor = min(self.cursor, first)
