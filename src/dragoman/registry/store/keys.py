"""Keys and passwords: who they belong to, what they grant, and the hash of their secret."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from dragoman.core.database import Row, Transaction
from dragoman.registry.access import Grant
from dragoman.registry.model import Key

_SELECT = "SELECT id, kind, owner, secret, grants, created, expires FROM registry_keys"


def _from_row(row: Row) -> Key:
    id, kind, owner, secret, grants, created, expires = row
    given = tuple(Grant.parse(text) for text in json.loads(grants))
    return Key(id, kind, owner, secret, given, float(created), None if expires is None else float(expires))


def by_id(tx: Transaction, id: str) -> Key | None:
    rows = tx.execute(_SELECT + " WHERE id = ?", (id,))
    return _from_row(rows[0]) if rows else None


def everything(tx: Transaction) -> Sequence[Key]:
    return [_from_row(row) for row in tx.execute(_SELECT + " ORDER BY created, id")]


def insert(tx: Transaction, key: Key) -> None:
    grants = json.dumps([str(grant) for grant in key.grants])
    tx.execute(
        "INSERT INTO registry_keys (id, kind, owner, secret, grants, created, expires)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (key.id, key.kind, key.owner, key.secret, grants, time.time(), key.expires),
    )


def delete(tx: Transaction, id: str) -> bool:
    tx.execute("DELETE FROM registry_keys WHERE id = ?", (id,))
    return tx.changed > 0
