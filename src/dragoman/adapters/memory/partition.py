"""One partition's messages, in a list."""

from __future__ import annotations

from dragoman.core.message import Message


class Partition:
    """``messages[i]`` has the offset ``base + i``."""

    __slots__ = ("base", "messages")

    def __init__(self) -> None:
        self.base = 0
        self.messages: list[Message] = []

    @property
    def end(self) -> int:
        return self.base + len(self.messages)

    def slice(self, start: int, count: int) -> list[Message]:
        at = start - self.base
        return self.messages[at : at + count]

    def offset_at(self, timestamp: int) -> int:
        for index, message in enumerate(self.messages):
            if (message.timestamp or 0) >= timestamp:
                return self.base + index
        return self.end

    def drop_before(self, timestamp: int) -> None:
        """Forget the oldest messages, up to the first that is young enough."""
        old = self.offset_at(timestamp) - self.base
        del self.messages[:old]
        self.base += old
