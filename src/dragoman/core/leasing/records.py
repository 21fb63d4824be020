"""What a broker has to offer so that groups can be leased on top of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from dragoman.core.message import Message

Place = tuple[str, int]
"""A channel and a partition."""


class Stored(NamedTuple):
    data: bytes
    revision: int


class Change(NamedTuple):
    """A record is to become this, if it still has that revision; 0 if it must not be there yet."""

    name: str
    data: bytes
    revision: int


class Records(Protocol):
    """The records of one group on one channel. Reads see all writes that were confirmed before."""

    async def load(self, names: Sequence[str]) -> list[Stored | None]: ...

    async def save(self, changes: Sequence[Change]) -> list[int | None]:
        """The new revisions; ``None`` where somebody was faster, and for a channel that is gone."""

    async def remove(self, names: Sequence[str]) -> None:
        """Forget the group. Those not named may go, too."""

    async def seat(self) -> str:
        """What others can see of our connection. Another one after it was lost and made anew."""

    async def gone(self, seats: Collection[str]) -> set[str]:
        """Those of them whose connection is closed for certain. None if the broker does not tell."""


class Source(Protocol):
    """How one member reads the channels of its subscription."""

    async def partitions(self, channel: str) -> int:
        """Raises ``ChannelNotFound``."""

    async def read(
        self, cursors: Sequence[tuple[Place, int]], limit: int
    ) -> Sequence[tuple[Place, list[Message]]]:
        """Messages from each cursor on, in order, ``limit`` at most in all; what is there already."""

    async def pick(self, place: Place, offsets: Sequence[int]) -> list[Message]:
        """Just these messages, without those that are gone."""

    async def wait(self, cursors: Mapping[Place, int], timeout: float) -> None:
        """Until there may be something to read. Safe to cancel."""

    async def tend(self) -> float | None:
        """Do what is due in the background of these channels; when to come again, in seconds since the
        epoch."""

    async def close(self) -> None: ...
