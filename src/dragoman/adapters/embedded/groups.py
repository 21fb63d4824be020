"""Groups in the database: members, who owns which partition, and how far each group is.

Every function runs inside a transaction. A share belongs to one owner and epoch at a time. Whatever an owner
writes names both, so that one who was replaced meanwhile changes nothing, and learns of it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dragoman.core.broker import Sharing
from dragoman.core.clock import from_wall_clock, to_wall_clock
from dragoman.core.partitioning import shares_of
from dragoman.core.progress import Progress

Place = tuple[int, int]
"""A channel's id and a partition."""

IN_FLIGHT = -1.0
"""Stands for the due time of a message that was set aside, and is delivered."""


REACHED = """
SELECT partition, max(until) FROM (
    SELECT partition, max(position, cursor) AS until FROM share WHERE channel = ?1
    UNION ALL SELECT partition, "offset" + 1 FROM aside WHERE channel = ?1)
GROUP BY partition
"""
"""For each partition of a channel, the offset up to which groups have seen messages."""


def open_shares(connection: sqlite3.Connection, team: str, channel: int, positions: Sequence[int]) -> None:
    """The group is new to the channel: remember where it starts. Another member may have been faster."""
    row = connection.execute("SELECT partitions FROM channel WHERE id = ?", (channel,)).fetchone()
    # Partitions that were added a moment ago are read from their beginning.
    added = [0] * ((row[0] if row else 0) - len(positions))
    connection.executemany(
        "INSERT INTO share VALUES (?, ?, ?, ?, ?, '[]', NULL, 0) ON CONFLICT DO NOTHING",
        [(team, channel, number, position, position) for number, position in enumerate([*positions, *added])],
    )


@dataclass(frozen=True, slots=True)
class Member:
    """``channels`` are ids; ``lease`` is when its lease ends."""

    id: str
    channels: list[int]
    lease: float
    sharing: Sharing


def found(connection: sqlite3.Connection, team: str, durable: bool) -> bool:
    """Make the group if it is new; whether it is durable."""
    connection.execute("INSERT INTO team VALUES (?, 0, ?) ON CONFLICT DO NOTHING", (team, durable))
    row = connection.execute("SELECT durable FROM team WHERE name = ?", (team,)).fetchone()
    return bool(row[0])


def join(connection: sqlite3.Connection, team: str, member: Member) -> None:
    """It ranks behind those who are there."""
    connection.execute(
        "INSERT OR REPLACE INTO member SELECT ?1, ?2, ?3, ?4, ?5, coalesce(max(rank), 0) + 1"
        " FROM member WHERE team = ?2",
        (member.id, team, json.dumps(member.channels), member.lease, member.sharing),
    )
    announce(connection, team)


def temporary(connection: sqlite3.Connection) -> list[str]:
    """The groups that are not durable."""
    return [name for (name,) in connection.execute("SELECT name FROM team WHERE NOT durable")]


def forget(connection: sqlite3.Connection, team: str) -> None:
    for table, column in (("share", "team"), ("aside", "team"), ("team", "name")):
        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (team,))  # noqa: S608


def renew(connection: sqlite3.Connection, member: str, lease: float) -> bool:
    """``False`` if the others took us for dead."""
    return connection.execute("UPDATE member SET lease_end = ? WHERE id = ?", (lease, member)).rowcount > 0


def leave(connection: sqlite3.Connection, team: str, member: str) -> None:
    """Gone, alive or dead: what it was given comes again, and counts as tried."""
    owned = connection.execute(
        "SELECT channel, partition FROM share WHERE team = ? AND owner = ?", (team, member)
    ).fetchall()
    for place in owned:
        give_up(connection, team, place)
    connection.execute("DELETE FROM member WHERE id = ?", (member,))
    announce(connection, team)


def announce(connection: sqlite3.Connection, team: str) -> None:
    """Something changed that the other members should look at."""
    connection.execute("UPDATE team SET version = version + 1 WHERE name = ?", (team,))


def version(connection: sqlite3.Connection, team: str) -> int:
    row = connection.execute("SELECT version FROM team WHERE name = ?", (team,)).fetchone()
    return row[0] if row else -1


def members(connection: sqlite3.Connection, team: str) -> list[Member]:
    """In the order in which they joined."""
    rows = connection.execute(
        "SELECT id, channels, lease_end, sharing FROM member WHERE team = ? ORDER BY rank, id", (team,)
    )
    return [
        Member(id, json.loads(channels), lease, Sharing(sharing)) for id, channels, lease, sharing in rows
    ]


def owners(connection: sqlite3.Connection, team: str, channel: int) -> list[tuple[int, str | None]]:
    """Who owns each partition of a channel."""
    return connection.execute(
        "SELECT partition, owner FROM share WHERE team = ? AND channel = ? ORDER BY partition",
        (team, channel),
    ).fetchall()


def quota(connection: sqlite3.Connection, team: str, channel: int, member: str, partitions: int) -> int:
    """How many partitions of a channel this member should own."""
    name = connection.execute("SELECT name FROM channel WHERE id = ?", (channel,)).fetchone()
    those = [each for each in members(connection, team) if channel in each.channels]
    sharing = those[0].sharing if those else Sharing.SHARED
    ids = [each.id for each in those]
    return shares_of(sharing, name[0] if name else "", partitions, ids).get(member, 0)


def claim(connection: sqlite3.Connection, team: str, place: Place, member: str) -> tuple[int, Progress]:
    """Own a share from now on. The new epoch, and how far the group is."""
    progress = load(connection, team, place)
    returned = list(progress.returned)
    progress.abandon()
    save_asides(connection, team, place, progress, returned)
    epoch = connection.execute(
        "UPDATE share SET owner = ?, epoch = epoch + 1, position = ?, cursor = ?, tried = ?"
        " WHERE team = ? AND channel = ? AND partition = ? RETURNING epoch",
        (member, progress.position, progress.cursor, _runs(progress.tried), team, *place),
    ).fetchone()[0]
    return epoch, progress


def move(
    connection: sqlite3.Connection, team: str, place: Place, position: int, dropped: Sequence[int]
) -> None:
    """Set the group's position, and forget those of ``dropped`` that were set aside. The share is free."""
    give_up(connection, team, place)
    progress = load(connection, team, place)
    for offset in dropped:
        progress.aside.pop(offset, None)
    save_asides(connection, team, place, progress, dropped)
    tried = {offset: count for offset, count in progress.tried.items() if offset >= position}
    connection.execute(
        "UPDATE share SET epoch = epoch + 1, position = ?, cursor = ?, tried = ?"
        " WHERE team = ? AND channel = ? AND partition = ?",
        (position, position, _runs(tried), team, *place),
    )
    announce(connection, team)


def give_up(connection: sqlite3.Connection, team: str, place: Place) -> None:
    progress = load(connection, team, place)
    returned = list(progress.returned)
    progress.abandon()
    save_asides(connection, team, place, progress, returned)
    connection.execute(
        "UPDATE share SET owner = NULL, position = ?, cursor = ?, tried = ?"
        " WHERE team = ? AND channel = ? AND partition = ?",
        (progress.position, progress.cursor, _runs(progress.tried), team, *place),
    )


def load(connection: sqlite3.Connection, team: str, place: Place) -> Progress:
    position, cursor, tried = connection.execute(
        "SELECT position, cursor, tried FROM share WHERE team = ? AND channel = ? AND partition = ?",
        (team, *place),
    ).fetchone()
    progress = Progress(position)
    progress.cursor = cursor
    for first, last, count in json.loads(tried):
        progress.tried.update(dict.fromkeys(range(first, last + 1), count))
    rows = connection.execute(
        'SELECT "offset", due, tried FROM aside WHERE team = ? AND channel = ? AND partition = ?',
        (team, *place),
    )
    for offset, due, count in rows:
        if due == IN_FLIGHT:
            progress.returned[offset] = count
        else:
            progress.put_aside(offset, from_wall_clock(due), count)
    return progress


def save(
    connection: sqlite3.Connection, team: str, place: Place, owner: str, epoch: int, progress: Progress
) -> bool:
    """Write down how far we are; ``False`` if the share is not ours any more."""
    return (
        connection.execute(
            "UPDATE share SET position = ?, cursor = ?, tried = ?"
            " WHERE team = ? AND channel = ? AND partition = ? AND owner = ? AND epoch = ?",
            (progress.position, progress.cursor, _runs(progress.tried), team, *place, owner, epoch),
        ).rowcount
        > 0
    )


def save_asides(
    connection: sqlite3.Connection, team: str, place: Place, progress: Progress, offsets: Iterable[int]
) -> None:
    """Write down what became of these messages: still aside, delivered, or done."""
    for offset in offsets:
        if offset in progress.aside:
            aside = progress.aside[offset]
            due, tried = to_wall_clock(aside.due), aside.tried
        elif offset in progress.returned:
            due, tried = IN_FLIGHT, progress.returned[offset]
        else:
            connection.execute(
                'DELETE FROM aside WHERE team = ? AND channel = ? AND partition = ? AND "offset" = ?',
                (team, *place, offset),
            )
            continue
        connection.execute(
            "INSERT OR REPLACE INTO aside VALUES (?, ?, ?, ?, ?, ?)", (team, *place, offset, due, tried)
        )


def _runs(tried: dict[int, int]) -> str:
    """Neighbours that were tried as often as each other share an entry: a crash may leave thousands."""
    if not tried:
        return "[]"
    runs: list[list[int]] = []
    for offset, count in sorted(tried.items()):
        if runs and runs[-1][1] == offset - 1 and runs[-1][2] == count:
            runs[-1][1] = offset
        else:
            runs.append([offset, offset, count])
    return json.dumps(runs)
