"""Moving a group past damaged ranges of the log."""

from __future__ import annotations

import sqlite3

from dragoman.adapters.embedded import groups
from dragoman.adapters.embedded.channels import ChannelFiles
from dragoman.adapters.embedded.reader import PartitionReader
from dragoman.core.broker import DamagedRange
from dragoman.core.errors import DamagedLog
from dragoman.core.progress import Progress


def damage_ahead(files: ChannelFiles, partition: int, progress: Progress) -> tuple[list[DamagedRange], int]:
    """The ranges that hold the group back, and the offset behind them.

    These are the damaged ranges that the group stands at, and damaged messages that were set aside.
    """
    found: list[DamagedRange] = []
    reader = PartitionReader(files.partition_folder(partition), files.bounds, partition, files.disk)

    def sound(first: int, last: int) -> int:
        """The offset behind the damage or the gap at ``first``; ``first`` if a message can be read."""
        try:
            blocks = reader.read(first, last, 1)
        except DamagedLog as error:
            until = min(error.until, last)
            found.append(DamagedRange(partition, first, until))
            return until
        if blocks and all(block.is_gap for block in blocks):
            return min(blocks[-1].end, last)
        return first

    try:
        # A write that is under way would be taken for damage.
        with files.appender(partition).quiet():
            start, end = files.bounds.one(partition)
            position = max(progress.position, start)
            for offset in sorted((*progress.aside, *progress.returned)):
                if start <= offset < min(position, end):
                    sound(offset, offset + 1)
            while position < end and (behind := sound(position, end)) > position:
                position = behind
    finally:
        reader.close()
    return found, position


def skip(
    connection: sqlite3.Connection, files: ChannelFiles, group: str, partition: int
) -> list[DamagedRange]:
    """Inside a transaction. The member that owns the partition loses it and may claim it again, behind."""
    place = files.id, partition
    progress = groups.load(connection, group, place)
    found, position = damage_ahead(files, partition, progress)
    if not found:
        return []
    dropped = [
        offset
        for offset in (*progress.aside, *progress.returned)
        if any(each.first <= offset < each.until for each in found)
    ]
    groups.move(connection, group, place, position, dropped)
    return found
