"""Messages put together from their parts, in whatever order they come."""

from __future__ import annotations

from dragoman.gateway.sep.frames import Ack, Part
from dragoman.gateway.sep.message import PART_BYTES

_ACK_EVERY = 8


class Assembly:
    """One incoming message."""

    def __init__(self, stream: int, count: int) -> None:
        self.stream = stream
        self.count = count
        self._parts: dict[int, bytes] = {}
        self._unacknowledged = 0

    @property
    def parts(self) -> int:
        return len(self._parts)

    def is_whole(self) -> bool:
        return len(self._parts) == self.count

    def add(self, part: Part) -> bool:
        """Whether this part is new, and fits the others."""
        if part.of != self.count or part.at in self._parts or not self._fits(part):
            self._unacknowledged = _ACK_EVERY
            return False
        self._parts[part.at] = part.data
        self._unacknowledged += 1
        return True

    def _fits(self, part: Part) -> bool:
        last = part.at == part.of - 1
        return 0 < len(part.data) <= PART_BYTES if last else len(part.data) == PART_BYTES

    def wants_acknowledgement(self) -> bool:
        """Often enough that the sender goes on, and at once when something seems to be missing."""
        return self._unacknowledged >= _ACK_EVERY

    def acknowledgement(self) -> Ack:
        self._unacknowledged = 0
        bitmap = bytearray((self.count + 7) // 8)
        for index in self._parts:
            bitmap[index // 8] |= 1 << index % 8
        return Ack(self.stream, self.count, bytes(bitmap))

    def message(self) -> bytes:
        return b"".join(self._parts[index] for index in range(self.count))
