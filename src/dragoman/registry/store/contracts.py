"""Contracts and their versions. A version number is given once and never again."""

# ruff: noqa: S608 - only constants of this package are joined into SQL, values are always parameters.

from __future__ import annotations

import time
from collections.abc import Sequence

from dragoman.core.database import Row, Transaction
from dragoman.registry import refusals
from dragoman.registry.model import GREATEST_NUMBER, StoredVersion
from dragoman.registry.name import ContractName
from dragoman.registry.store import schemas

_COLUMNS = "v.context, v.contract, v.version, v.live_schema, v.created, v.author, " + schemas.COLUMNS
_SELECT = (
    f"SELECT {_COLUMNS}"
    " FROM registry_versions v JOIN registry_schemas s ON s.context = v.context AND s.id = v.schema_id"
)
_OF_CONTRACT = " WHERE v.context = ? AND v.contract = ?"
_LIVE = " AND v.live_schema IS NOT NULL"


def _from_row(row: Row) -> StoredVersion:
    context, contract, version, live, created, author, *schema = row
    return StoredVersion(
        ContractName(context, contract),
        int(version),
        schemas.from_row(tuple(schema)),
        live is None,
        float(created),
        author,
    )


def next_version(tx: Transaction, name: ContractName) -> int:
    """The number for a new version: one above the greatest, or above those that are gone."""
    rows = tx.execute(
        "SELECT MAX(version) + 1 FROM registry_versions WHERE context = ? AND contract = ?"
        " UNION ALL SELECT next_version FROM registry_contracts WHERE context = ? AND name = ?",
        (*name, *name),
    )
    return max((int(row[0]) for row in rows if row[0] is not None), default=1)


def raise_next_version(tx: Transaction, name: ContractName, above: int) -> None:
    """Numbers up to this one are not given again, though no version has them."""
    tx.execute(
        "UPDATE registry_contracts SET next_version = CASE WHEN next_version > ? THEN next_version ELSE ? END"
        " WHERE context = ? AND name = ?",
        (above, above + 1, *name),
    )
    if not tx.changed:
        sql = "INSERT INTO registry_contracts (context, name, next_version) VALUES (?, ?, ?)"
        tx.execute(sql, (*name, above + 1))


def counters(tx: Transaction) -> Sequence[tuple[ContractName, int]]:
    """Every contract there ever was, with the number of its next version."""
    rows = tx.execute(
        "SELECT context, contract, MAX(version) + 1 FROM registry_versions GROUP BY context, contract"
        " UNION ALL SELECT context, name, next_version FROM registry_contracts"
    )
    found: dict[ContractName, int] = {}
    for context, contract, next in rows:
        name = ContractName(context, contract)
        found[name] = max(found.get(name, 1), int(next))
    return sorted(found.items())


def names(tx: Transaction, *, deleted: bool = False, live: bool = True) -> Sequence[ContractName]:
    """Contracts that have a live version (``live``), or only deleted ones (``deleted``), or both."""
    wanted = {(True, False): "HAVING COUNT(live_schema) > 0", (False, True): "HAVING COUNT(live_schema) = 0"}
    rows = tx.execute(
        "SELECT context, contract FROM registry_versions GROUP BY context, contract "
        + wanted.get((live, deleted), "")
        + " ORDER BY context, contract"
    )
    return [ContractName(*row) for row in rows]


def numbers(tx: Transaction, name: ContractName) -> Sequence[tuple[int, bool]]:
    """All version numbers in rising order, each with whether it is deleted."""
    rows = tx.execute(
        "SELECT version, live_schema FROM registry_versions"
        " WHERE context = ? AND contract = ? ORDER BY version",
        name,
    )
    return [(int(version), live is None) for version, live in rows]


def version(
    tx: Transaction, name: ContractName, number: int, *, deleted: bool = False
) -> StoredVersion | None:
    rows = tx.execute(
        _SELECT + _OF_CONTRACT + " AND v.version = ?" + ("" if deleted else _LIVE), (*name, number)
    )
    return _from_row(rows[0]) if rows else None


def latest(tx: Transaction, name: ContractName, *, deleted: bool = False) -> StoredVersion | None:
    sql = _SELECT + _OF_CONTRACT + ("" if deleted else _LIVE) + " ORDER BY v.version DESC LIMIT 1"
    rows = tx.execute(sql, name)
    return _from_row(rows[0]) if rows else None


def versions(tx: Transaction, name: ContractName, *, deleted: bool = False) -> Sequence[StoredVersion]:
    sql = _SELECT + _OF_CONTRACT + ("" if deleted else _LIVE) + " ORDER BY v.version"
    return [_from_row(row) for row in tx.execute(sql, name)]


def all_versions(tx: Transaction, *, deleted: bool = False) -> Sequence[StoredVersion]:
    sql = _SELECT + ("" if deleted else " WHERE v.live_schema IS NOT NULL")
    return [_from_row(row) for row in tx.execute(sql + " ORDER BY v.context, v.contract, v.version")]


def of_schema(tx: Transaction, context: str, id: int, *, deleted: bool = False) -> Sequence[StoredVersion]:
    sql = _SELECT + " WHERE v.context = ? AND v.schema_id = ?" + ("" if deleted else _LIVE)
    return [_from_row(row) for row in tx.execute(sql + " ORDER BY v.contract, v.version", (context, id))]


def having_guid(
    tx: Transaction, name: ContractName, type: str, guid: str, *, deleted: bool = False
) -> StoredVersion | None:
    """The newest version with exactly this content."""
    found = _having(tx, name, "guid", guid, deleted)
    return next((each for each in found if each.schema.type == type), None)


def having_form(
    tx: Transaction, name: ContractName, form: str | None, *, deleted: bool = False
) -> Sequence[StoredVersion]:
    """The versions of this form, the newest first, whatever their metadata and rules."""
    return _having(tx, name, "form", form, deleted)


def having_identity(
    tx: Transaction, name: ContractName, identity: str | None, *, deleted: bool = False
) -> Sequence[StoredVersion]:
    """The versions of this identity, the newest first."""
    return _having(tx, name, "identity", identity, deleted)


def _having(
    tx: Transaction, name: ContractName, column: str, value: str | None, deleted: bool
) -> Sequence[StoredVersion]:
    """From the schema to the version: a contract may have many versions, few of them have one content.

    A planner would go the other way to save the sorting. ``CROSS JOIN`` keeps SQLite's from it, and the
    sorting is left to us.
    """
    schema = "v.schema_id" if deleted else "v.live_schema"
    sql = (
        f"SELECT {_COLUMNS} FROM registry_schemas s CROSS JOIN registry_versions v"
        f" WHERE s.{column} = ? AND s.context = ?"
        f" AND v.context = s.context AND v.contract = ? AND {schema} = s.id"
    )
    found = [_from_row(row) for row in tx.execute(sql, (value, *name))]
    return sorted(found, key=lambda each: each.version, reverse=True)


def having_schema(tx: Transaction, name: ContractName, id: int) -> StoredVersion | None:
    """The live version with the schema of this id."""
    rows = tx.execute(_SELECT + _OF_CONTRACT + " AND v.live_schema = ?", (*name, id))
    return _from_row(rows[0]) if rows else None


def insert(tx: Transaction, name: ContractName, number: int, schema_id: int, author: str) -> None:
    if number > GREATEST_NUMBER:
        raise refusals.not_permitted(f"Subject {name} has no version left after {GREATEST_NUMBER}.")
    tx.execute(
        "INSERT INTO registry_versions (context, contract, version, schema_id, live_schema, created, author)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*name, number, schema_id, schema_id, time.time(), author),
    )


def hide(tx: Transaction, name: ContractName, number: int) -> None:
    tx.execute(
        "UPDATE registry_versions SET live_schema = NULL WHERE context = ? AND contract = ? AND version = ?",
        (*name, number),
    )


def remove(tx: Transaction, name: ContractName, number: int) -> None:
    tx.execute(
        "DELETE FROM registry_versions WHERE context = ? AND contract = ? AND version = ?", (*name, number)
    )
    raise_next_version(tx, name, number)


def remove_context(tx: Transaction, context: str) -> None:
    """Forget an empty context's settings. Its counters stay, so no number is given twice."""
    tx.execute("DELETE FROM registry_settings WHERE context = ?", (context,))
