"""Files and folders in memory that remember what of them is on the disk.

What processes see and what the disk has differ by the changes since the last sync. A power failure keeps any
of these changes, loses the others, and tears writes at any byte. This is what POSIX allows. File systems
promise more, some of them only with certain settings, so nothing here relies on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random


@dataclass(frozen=True, slots=True)
class Write:
    place: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        if len(content) < self.place:
            content.extend(bytes(self.place - len(content)))
        content[self.place : self.place + len(self.data)] = self.data

    def torn(self, luck: Random) -> Write:
        """One piece of it, possibly none: disks write sectors in any order."""
        first, last = sorted(luck.randrange(len(self.data) + 1) for _ in range(2))
        kind = luck.randrange(4)
        first = 0 if kind == 0 else first
        last = len(self.data) if kind == 1 else last
        return Write(self.place + first, self.data[first:last])


@dataclass(frozen=True, slots=True)
class Resize:
    size: int

    def apply(self, content: bytearray) -> None:
        del content[self.size :]
        content.extend(bytes(self.size - len(content)))


@dataclass(slots=True, eq=False)
class File:
    number: int
    changed_ns: int = 0
    data: bytearray = field(default_factory=bytearray)
    """What processes see."""
    stored: bytearray = field(default_factory=bytearray)
    """What the disk has."""
    changes: list[Write | Resize] = field(default_factory=list)
    """What is to be written to the disk, in order."""
    links: int = 0
    failures: int = 0
    """Syncs that failed. Each handle that was open meanwhile is told once."""
    locked_by: int | None = None

    @property
    def size(self) -> int:
        return len(self.data)

    def change(self, change: Write | Resize, now_ns: int) -> None:
        change.apply(self.data)
        self.changes.append(change)
        self.changed_ns = now_ns

    def sync(self) -> None:
        for change in self.changes:
            change.apply(self.stored)
        self.changes.clear()

    def fail_sync(self, luck: Random) -> None:
        """As on Linux: what could not be written counts as written, and stays in memory for a while."""
        self._store_some(luck)
        self.changes.append(Resize(len(self.data)))
        self.failures += 1
        if luck.randrange(2):
            self.drop_cache()

    def drop_cache(self) -> None:
        """Forget what is in memory and need not be written."""
        self.data = bytearray(self.stored)
        for change in self.changes:
            change.apply(self.data)

    def lose(self, luck: Random) -> None:
        """The power fails."""
        self._store_some(luck)
        self.data = bytearray(self.stored)
        self.locked_by = None

    def _store_some(self, luck: Random) -> None:
        kept = luck.choice((0.0, 0.3, 0.5, 0.8, 1.0))
        for change in self.changes:
            if luck.random() < kept:
                change.apply(self.stored)
            elif isinstance(change, Write):
                if luck.randrange(2):
                    change.torn(luck).apply(self.stored)
                if luck.randrange(4) == 0:  # the new size was stored, the bytes were not
                    end = change.place + len(change.data)
                    self.stored.extend(bytes(max(0, end - len(self.stored))))
        self.changes.clear()

    def is_stored(self, place: int) -> bool:
        """Whether the disk has this byte as processes see it, and nothing is about to replace it."""
        return (
            place < min(len(self.data), len(self.stored))
            and self.data[place] == self.stored[place]
            and not any(
                isinstance(change, Resize) or change.place <= place < change.place + len(change.data)
                for change in self.changes
            )
        )

    def flip(self, place: int, bit: int) -> None:
        self.data[place] ^= 1 << bit
        self.stored[place] ^= 1 << bit

    def cut(self, size: int) -> None:
        """Somebody truncates it, and it is synced."""
        self.changes.clear()
        del self.data[size:]
        self.stored = bytearray(self.data)


@dataclass(slots=True, eq=False)
class Folder:
    number: int
    changed_ns: int = 0
    names: dict[str, File | Folder] = field(default_factory=dict)
    stored: dict[str, File | Folder] = field(default_factory=dict)
    changes: list[dict[str, File | Folder | None]] = field(default_factory=list)
    """Names that were made or removed; those of one change are stored together or not at all."""
    links: int = 0
    failures: int = 0
    locked_by: int | None = None

    @property
    def size(self) -> int:
        return len(self.names)

    def change(self, names: dict[str, File | Folder | None], now_ns: int) -> None:
        for name in names:
            if name in self.names:
                self.names[name].links -= 1
        _apply(names, self.names)
        for entry in names.values():
            if entry is not None:
                entry.links += 1
        self.changes.append(names)
        self.changed_ns = now_ns

    def sync(self) -> None:
        for change in self.changes:
            _apply(change, self.stored)
        self.changes.clear()

    def fail_sync(self, luck: Random) -> None:
        """Unlike bytes, names are in the journal: they stay to be stored, or nothing is stored any more."""
        self._store_some(luck)
        self.failures += 1

    def drop_cache(self) -> None:
        """Names stay in memory."""

    def lose(self, luck: Random) -> None:
        self._store_some(luck)
        self.changes.clear()
        self.names = dict(self.stored)
        self.locked_by = None

    def _store_some(self, luck: Random) -> None:
        kept = luck.choice((0.0, 0.5, 1.0))
        for change in self.changes:
            if luck.random() < kept:
                _apply(change, self.stored)


def _apply(change: dict[str, File | Folder | None], names: dict[str, File | Folder]) -> None:
    for name, entry in change.items():
        if entry is None:
            names.pop(name, None)
        else:
            names[name] = entry
