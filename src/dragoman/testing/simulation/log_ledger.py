"""What is known of a log from outside: what was confirmed, given to readers, harmed and may be lost.

The ledger checks each thing that the log says against all it has said before.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.core.message import Message
from dragoman.testing.simulation.scenario import Violation

Said = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes], ...], int | None]


def said(message: Message) -> Said:
    """What of a message is the sender's."""
    return message.payload, message.key, tuple(message.headers), message.timestamp


def name_of(content: Said) -> str:
    return f"{(content[0] or b'')[:12]!r} with the key {content[1]!r}"


class Ledger:
    def __init__(self, *, always: bool) -> None:
        self._always = always
        self.known: dict[int, Said] = {}
        """Confirmed, or given to a reader: it stays what it is, or is reported as damaged."""
        self.given: dict[int, Said] = {}
        """All that was ever known. Others may remember these offsets, so they are not given out again."""
        self.firm: set[int] = set()
        """Of these, a power failure may take none away."""
        self.noted: set[int] = set()
        """Of these, the disk has not only the messages but also that they were confirmed."""
        self.harmed: set[int] = set()
        """The disk has damaged them."""
        self.start = 0
        """Retention has removed what is before."""
        self._where: dict[Said, int] = {}
        self._refused: set[Said] = set()
        self._tried: set[Said] = set()
        self._is_weak = False
        self.may_leave_out = False
        """Something has happened after which the log may go on behind a gap."""
        self._bounds_harmed = False
        self._unproven: int | None = None

    def tried(self, messages: Sequence[Message]) -> None:
        self._tried.update(map(said, messages))

    def confirmed(self, first: int, messages: Sequence[Message]) -> list[int]:
        """An append has returned these offsets."""
        offsets = list(range(first, first + len(messages)))
        # A reader may have been given them before the append returned.
        last = max((offset for offset in self.given if offset not in offsets), default=-1)
        if first <= last:
            raise Violation(f"The offset {first} is given out after {last}.")
        for offset, message in zip(offsets, messages, strict=True):
            self._is_at(offset, said(message))
        return offsets

    def refused(self, messages: Sequence[Message]) -> None:
        """An append has failed, and the log says that nothing of it is kept."""
        self._refused.update(map(said, messages))

    def read(self, message: Message) -> None:
        """A reader was given this."""
        offset, content = message.offset, said(message)
        assert offset is not None
        if content not in self._tried:
            raise Violation(f"At {offset} stands what nobody sent: {name_of(content)}.")
        if content in self._refused:
            raise Violation(f"What was refused is delivered at {offset}.")
        self._is_at(offset, content)

    def _is_at(self, offset: int, content: Said) -> None:
        if self.given.setdefault(offset, content) != content:
            one, two = name_of(self.given[offset]), name_of(content)
            raise Violation(f"The offset {offset} has two messages: {one} and {two}.")
        if self._where.setdefault(content, offset) != offset:
            raise Violation(f"{name_of(content)} stands at {self._where[content]} and at {offset}.")
        if offset < self.start:  # a reader had the segment open
            return
        self.known[offset] = content
        if self._always:
            self.firm.add(offset)

    def damaged(self, first: int, until: int) -> None:
        """The log reports that these cannot be read."""
        if first >= until:
            raise Violation(f"The damaged range from {first} to {until} is empty.")
        for offset in range(first, until):
            if not self._may_be_reported(offset):
                raise Violation(f"Damage is reported at {offset}, where nothing was damaged.")

    def _may_be_reported(self, offset: int) -> bool:
        return (
            offset in self.harmed
            or (self._bounds_harmed and offset not in self.known)
            # Never confirmed: an append of several blocks that a power failure has cut short.
            or (self._is_weak and offset not in self.firm)
        )

    def left_out(self, first: int, until: int) -> None:
        """The log says that no messages have these offsets, or that a power failure has taken them."""
        if not self.may_leave_out:
            raise Violation(f"The offsets from {first} to {until} are left out, and nothing has happened.")
        for offset in self.known:
            if first <= offset < until:
                raise Violation(f"The message {offset} is passed over.")

    def complete(self, start: int, end: int, found: set[int], reported: set[int]) -> None:
        """All was read from start to end."""
        for offset in self.known:
            if offset < start:
                raise Violation(f"The log begins at {start}, but {offset} was confirmed and not removed.")
            if offset not in found and offset not in reported:
                raise Violation(f"The message {offset} is gone: the log goes from {start} to {end}.")

    def removed(self, start: int, before: int) -> None:
        """Retention has moved the start while it removed what is older than a time."""
        for offset in sorted(self.known):
            if offset >= start:
                break
            timestamp = self.known.pop(offset)[3]
            if timestamp is not None and timestamp >= before and offset not in self.harmed:
                raise Violation(f"Retention has removed {offset}, which is not old enough.")
        self.start = max(self.start, start)

    def synced(self, offsets: Sequence[int]) -> None:
        self.firm.update(offsets)
        self.noted.update(offset for offset in self.known if offset in self.firm)

    def sync_failed(self) -> None:
        """What was not synced before may be lost."""
        self._is_weak = self.may_leave_out = True
        self._forget_what_is_not_firm()

    def power_failed(self, end: int | None) -> None:
        """``end`` is where the log ends by what the disk has of its bounds; ``None`` if they are torn."""
        self._is_weak = self.may_leave_out = True
        self._refused.clear()
        self._forget_what_is_not_firm()
        self._unproven = -1 if end is None else end
        self._forget_what_cannot_be_proven()

    def _forget_what_is_not_firm(self) -> None:
        for offset in [each for each in self.known if each not in self.firm]:
            del self.known[offset]

    def harm(self, offsets: Sequence[int]) -> None:
        self.harmed.update(offsets)
        self._forget_what_cannot_be_proven()

    def harm_bounds(self) -> None:
        """Where the log ends is known only from what can be read of it."""
        self._bounds_harmed = self.may_leave_out = True
        self._unproven = -1
        self._forget_what_cannot_be_proven()

    def bounds_torn(self) -> None:
        """A process has died while it wrote them, or a call has failed."""
        self.may_leave_out = True

    def recovered(self) -> None:
        """A process has opened the log: what is in it by now counts as confirmed."""
        self._unproven = None

    def _forget_what_cannot_be_proven(self) -> None:
        """A damaged last block looks like a write that was cut short, unless the bounds tell of it."""
        if self._unproven is None:
            return
        for offset in self.harmed:
            if offset >= self._unproven and (self._unproven < 0 or offset not in self.noted):
                self.known.pop(offset, None)
                if self._always:
                    # Nothing was reserved: a block that looks like a torn write was never given out.
                    self.given.pop(offset, None)
