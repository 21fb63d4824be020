"""Messages published with a delay: they wait in the database and enter the log when they are due.

A process that dies between the two leaves them in both places: they are then delivered twice, never lost.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence

from dragoman.adapters.embedded.channels import find_channel, not_found
from dragoman.core.log import pack_headers, unpack_headers
from dragoman.core.message import Message

AT_ONCE = 1000
"""So many are brought in by one transaction."""


def postpone(messages: Sequence[tuple[int, Message]], due: float) -> Callable[[sqlite3.Connection], None]:
    """Keep messages, each with its channel's id, until they are due. Raises ``ChannelNotFound``."""
    rows = [
        (
            due,
            id,
            message.partition,
            message.payload,
            message.key,
            pack_headers(message.headers),
            message.timestamp,
        )
        for id, message in messages
    ]

    def work(connection: sqlite3.Connection) -> None:
        for id, name in {(id, message.channel) for id, message in messages}:
            if find_channel(connection, name)[0] != id:
                raise not_found(name)
        connection.executemany(
            "INSERT INTO delayed (due, channel, partition, payload, key, headers, timestamp)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            rows,
        )

    return work


def bring_in(
    now: float, channels: list[int], append: Callable[[list[Message]], object]
) -> Callable[[sqlite3.Connection], int]:
    """Append what is due for these channels; how many that were.

    The database is locked meanwhile: nobody else does it too.
    """

    def work(connection: sqlite3.Connection) -> int:
        rows = connection.execute(
            "SELECT delayed.id, name, payload, key, headers, partition, timestamp FROM delayed"
            " JOIN channel ON channel.id = delayed.channel"
            " WHERE due <= ? AND channel.id IN (SELECT value FROM json_each(?))"
            " ORDER BY due, delayed.id LIMIT ?",
            (now, json.dumps(channels), AT_ONCE),
        ).fetchall()
        append(
            [
                Message(name, payload, key, unpack_headers(headers), partition, None, timestamp)
                for _, name, payload, key, headers, partition, timestamp in rows
            ]
        )
        connection.executemany("DELETE FROM delayed WHERE id = ?", [row[:1] for row in rows])
        return len(rows)

    return work


NEXT_DUE = "SELECT due FROM delayed ORDER BY due LIMIT 1"
