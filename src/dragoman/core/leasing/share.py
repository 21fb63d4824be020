"""A partition that this member owns: what it delivers next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dragoman.core.leasing.record import ShareRecord
from dragoman.core.leasing.records import Place
from dragoman.core.message import Message
from dragoman.core.progress import Due, Progress

MOST_ASIDE = 4096
"""So many messages of one partition may wait for their delay; after that the flow waits for them."""


@dataclass(slots=True, eq=False)
class Share:
    place: Place
    record: ShareRecord
    revision: int
    leave_by: float | None = None
    """Another member waits for it: nothing is delivered any more, and at this time it goes for good."""

    @property
    def progress(self) -> Progress:
        return self.record.progress

    @property
    def flows(self) -> bool:
        return self.leave_by is None and len(self.progress.aside) < MOST_ASIDE


@dataclass(slots=True, eq=False)
class Delivery:
    """What is taken from a share in one go: written down before it is given out, or undone."""

    share: Share
    before: int
    messages: list[Message] = field(default_factory=list)
    due: Due = field(default_factory=lambda: Due([], []))

    @classmethod
    def begin(cls, share: Share, now: float, limit: int) -> Delivery:
        progress = share.progress
        if progress.plain:
            return cls(share, progress.cursor)
        progress.step_over()
        return cls(share, progress.cursor, due=progress.take_due(now, limit))

    @property
    def changes_something(self) -> bool:
        progress = self.share.progress
        return bool(self.messages or self.due.returned or self.due.rejoined) or progress.cursor > self.before

    def come_again(self, picked: Sequence[Message]) -> None:
        """Those that were set aside and are due. What retention has removed is done with."""
        progress = self.share.progress
        found = {message.offset for message in picked}
        for offset in [offset for offset in self.due.returned if offset not in found]:
            progress.returned.pop(offset, None)
        self.messages += [self._counted(message) for message in picked]

    def flow(self, found: list[Message]) -> None:
        if not found:
            return
        progress = self.share.progress
        if progress.cursor == progress.position:
            # Nothing is in flight: what retention has removed before the first one is done with.
            progress.position = found[0].offset or 0
        progress.cursor = (found[-1].offset or 0) + 1
        if progress.plain:
            self.messages = self.messages + found if self.messages else found
        else:
            self.messages += [
                self._counted(message) for message in found if not progress.skips(message.offset or 0)
            ]

    def undo(self) -> None:
        """It was not written down, so it was not delivered."""
        progress = self.share.progress
        progress.cursor = max(self.before, progress.position)
        for held, offsets in ((progress.returned, self.due.returned), (progress.tried, self.due.rejoined)):
            for offset in offsets:
                if offset in held:
                    progress.put_aside(offset, 0.0, held.pop(offset))

    def _counted(self, message: Message) -> Message:
        attempt = self.share.progress.attempt(message.offset or 0)
        return message if attempt == 1 else message._replace(attempt=attempt)
