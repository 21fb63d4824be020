"""A partition that this member owns: what to deliver next."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dragoman.adapters.embedded.bounds import Bounds
from dragoman.adapters.embedded.groups import Place
from dragoman.adapters.embedded.reader import MessageReader
from dragoman.core.errors import DamagedLog
from dragoman.core.message import Message
from dragoman.core.progress import Due, Progress

TRY_AGAIN = 0.1
"""Seconds until a damaged message that stands aside is read again: its file may have been restored."""


@dataclass(slots=True, eq=False)
class Plan:
    """A delivery that is written down before it happens, so that a crash after it counts as an attempt."""

    share: Share
    messages: list[Message]
    before: int
    after: int
    due: Due = field(default_factory=lambda: Due([], []))
    gone: list[int] = field(default_factory=list)
    """Set aside, and dropped by retention."""

    @property
    def asides(self) -> list[int]:
        """All that were set aside, and are so no longer."""
        return [*self.due.returned, *self.due.rejoined, *self.gone]


class Share:
    def __init__(
        self, channel: str, place: Place, folder: Path, bounds: Bounds, epoch: int, progress: Progress
    ) -> None:
        self.channel = channel
        self.place = place
        self.epoch = epoch
        self.progress = progress
        self.leave_by: float | None = None
        self._flow = MessageReader(folder, channel, place[1], bounds)
        self._single = MessageReader(folder, channel, place[1], bounds)

    def plan(self, limit: int, start: int, end: int, now: float) -> Plan:
        progress = self.progress
        gone: list[int] = []
        if progress.position < start:
            gone = [offset for offset in (*progress.aside, *progress.returned) if offset < start]
            progress.forget_before(start)
        before = progress.cursor
        if progress.plain and not gone:
            messages = self._flow.read(before, end, limit)
            return Plan(self, messages, before, _after(messages, before))
        progress.step_over()
        before = progress.cursor
        plan = Plan(self, [], before, before, progress.take_due(now, limit), gone)
        try:
            self._fill(plan, limit, end, now)
        except BaseException:
            self.undo(plan)
            raise
        return plan

    def _fill(self, plan: Plan, limit: int, end: int, now: float) -> None:
        messages = plan.messages
        messages += self._again(plan, end, now)
        while len(messages) < limit and (found := self._read(plan, end, limit - len(messages))):
            messages += [
                self._counted(message) for message in found if not self.progress.skips(message.offset or 0)
            ]
            plan.after = _after(found, plan.after)

    def _read(self, plan: Plan, end: int, limit: int) -> list[Message]:
        """The flow from where the plan is. Damage is reported when there is nothing else to deliver."""
        try:
            return self._flow.read(plan.after, end, limit)
        except DamagedLog:
            if not plan.messages:
                raise
            return []

    def undo(self, plan: Plan) -> None:
        """It was not delivered after all."""
        progress = self.progress
        for held, offsets in ((progress.returned, plan.due.returned), (progress.tried, plan.due.rejoined)):
            for offset in offsets:
                if offset in held:
                    progress.put_aside(offset, 0.0, held.pop(offset))

    def _again(self, plan: Plan, end: int, now: float) -> list[Message]:
        """Those that were set aside and are due. Damaged ones stay aside, and do not hold back the others."""
        messages = []
        damage: DamagedLog | None = None
        for offset in list(plan.due.returned):
            try:
                found = self._single.read(offset, min(end, offset + 1), 1)
            except DamagedLog as error:
                damage = error
                plan.due.returned.remove(offset)
                self.progress.put_aside(offset, now + TRY_AGAIN, self.progress.returned.pop(offset))
                continue
            if found and found[0].offset == offset:
                messages.append(self._counted(found[0]))
            else:  # retention was faster
                del self.progress.returned[offset]
        if damage is not None and not messages:
            raise damage
        return messages

    def _counted(self, message: Message) -> Message:
        attempt = self.progress.attempt(message.offset or 0)
        return message if attempt == 1 else message._replace(attempt=attempt)

    def close(self) -> None:
        self._flow.close()
        self._single.close()


def _after(messages: list[Message], otherwise: int) -> int:
    return (messages[-1].offset or 0) + 1 if messages else otherwise
