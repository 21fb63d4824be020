"""A group's place in one partition, owned by one member at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.adapters.memory.partition import Partition
from dragoman.core.message import Message
from dragoman.core.progress import Progress

if TYPE_CHECKING:
    from dragoman.adapters.memory.receiver import MemoryReceiver


class Share:
    __slots__ = ("leave_by", "log", "owner", "progress")

    def __init__(self, log: Partition, position: int) -> None:
        self.log = log
        self.progress = Progress(position)
        self.owner: MemoryReceiver | None = None
        self.leave_by: float | None = None

    def take(self, limit: int, now: float) -> list[Message]:
        progress, log = self.progress, self.log
        if progress.cursor >= log.base + len(log.messages) and progress.plain:
            return []
        if progress.position < self.log.base:
            progress.forget_before(self.log.base)
        if progress.plain:
            taken = self.log.slice(progress.cursor, limit)
            progress.cursor += len(taken)
            return taken
        progress.step_over()
        taken = [self._delivery(offset) for offset in progress.take_due(now, limit).returned]
        cursor, end = progress.cursor, self.log.end
        while len(taken) < limit and cursor < end:
            if not progress.skips(cursor):
                taken.append(self._delivery(cursor))
            cursor += 1
        progress.cursor = cursor
        return taken

    def _delivery(self, offset: int) -> Message:
        attempt = self.progress.attempt(offset)
        message = self.log.messages[offset - self.log.base]
        return message if attempt == 1 else message._replace(attempt=attempt)

    def abandon(self) -> None:
        self.progress.abandon()
        self.owner = None
        self.leave_by = None
