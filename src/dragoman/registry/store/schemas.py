"""Schemas by id, GUID and content. A content has one id within a context, unless imports gave it more."""

# ruff: noqa: S608 - only constants of this package are joined into SQL, values are always parameters.

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.core.database import Row, Transaction
from dragoman.core.schema import Reference
from dragoman.registry import refusals
from dragoman.registry.model import GREATEST_NUMBER, Json, StoredSchema
from dragoman.registry.name import ContractName, parse_name

COLUMNS = (
    "s.context, s.id, s.guid, s.type, s.body, s.refs, s.metadata, s.rule_set,"
    " s.fingerprint, s.form, s.identity"
)

GREATEST_COUNTED_ID = 2**30
"""Up to here a new id is above all that were assigned or imported.

An import of a greater id does not move the counter, which could not move on from the greatest of all. Each of
the greater ids, once assigned or imported, is in ``registry_high_ids``, also when its schema is gone. The
counter only gets there when an id below was imported or 2**30 were assigned. Then it skips these.
"""
_GREATEST_ID = (
    "(SELECT id FROM registry_schemas"
    f" WHERE context = ? AND id <= {GREATEST_COUNTED_ID} ORDER BY id DESC LIMIT 1)"
)


def from_row(row: Row) -> StoredSchema:
    context, id, guid, type, text, references, metadata, rule_set, fingerprint, form, identity = row
    return StoredSchema(
        context,
        int(id),
        guid,
        type,
        text,
        tuple(Reference(*each) for each in json.loads(references)),
        _unpacked(metadata),
        _unpacked(rule_set),
        fingerprint,
        form,
        identity,
    )


def by_id(tx: Transaction, context: str, id: int) -> StoredSchema | None:
    rows = tx.execute(
        f"SELECT {COLUMNS} FROM registry_schemas s WHERE s.context = ? AND s.id = ?", (context, id)
    )
    return from_row(rows[0]) if rows else None


def by_guid(tx: Transaction, guid: str) -> Sequence[StoredSchema]:
    """The schema in every context that has it."""
    sql = f"SELECT {COLUMNS} FROM registry_schemas s WHERE s.guid = ? ORDER BY s.context, s.id"
    return [from_row(row) for row in tx.execute(sql, (guid,))]


class Place(NamedTuple):
    """Where a schema would go in a contract."""

    known: Sequence[StoredSchema]
    """The context's schemas of this identity, by rising id."""
    next_id: int
    next_version: int


def place(tx: Transaction, name: ContractName, identity: str | None) -> Place:
    """All that numbers depend on, in one question, under the context's lock.

    A planner that knows nothing of a young table yet would read the whole context, if it could, for the
    greatest id and for the content. ``LIMIT`` and ``COALESCE`` leave it the right index only.
    """
    rows = tx.execute(
        f"SELECT c.next_id, {_GREATEST_ID},"
        " (SELECT next_version FROM registry_contracts WHERE context = ? AND name = ?),"
        f" (SELECT MAX(version) FROM registry_versions WHERE context = ? AND contract = ?), {COLUMNS}"
        " FROM registry_contexts c LEFT JOIN registry_schemas s"
        " ON s.identity = ? AND COALESCE(s.context, '') = c.name WHERE c.name = ? ORDER BY s.id",
        (name.context, *name, *name, identity, name.context),
    )
    next_id, greatest_id, next_version, greatest_version = rows[0][:4]
    known = [from_row(tuple(row[4:])) for row in rows if row[4] is not None]
    free = _free_id(tx, name.context, _above(next_id, greatest_id))
    return Place(known, free, _above(next_version or 1, greatest_version))


def lock_context(tx: Transaction, context: str) -> None:
    """Let no other node write to this context until the transaction ends."""
    tx.execute("UPDATE registry_contexts SET next_id = next_id WHERE name = ?", (context,))
    if not tx.changed:
        tx.execute("INSERT INTO registry_contexts (name, next_id) VALUES (?, 1)", (context,))


def next_id(tx: Transaction, context: str) -> int:
    """The id for a new schema, under the context's lock."""
    sql = f"SELECT next_id, {_GREATEST_ID} FROM registry_contexts WHERE name = ?"
    rows = tx.execute(sql, (context, context))
    return _free_id(tx, context, _above(*rows[0]))


def _free_id(tx: Transaction, context: str, least: int) -> int:
    """The first id from ``least`` on that was never given. Reads only the ids that it skips."""
    if least <= GREATEST_COUNTED_ID:
        return least
    taken = tx.execute("SELECT 1 FROM registry_high_ids WHERE context = ? AND id = ?", (context, least))
    if not taken:
        return least
    rows = tx.execute(
        "SELECT h.id FROM registry_high_ids h WHERE h.context = ? AND h.id >= ? AND NOT EXISTS"
        " (SELECT 1 FROM registry_high_ids n WHERE n.context = h.context AND n.id = h.id + 1)"
        " ORDER BY h.id LIMIT 1",
        (context, least),
    )
    return int(rows[0][0]) + 1


def _above(floor: int, greatest: int | None) -> int:
    """One above the greatest number there is, or, if that is more, above those that are gone."""
    return max(int(floor), int(greatest or 0) + 1)


def raise_next_id(tx: Transaction, context: str, above: int) -> None:
    """Ids up to this one are not given again, though no schema has them. Of the high ones each is stored."""
    _raise_next_id(tx, context, min(above, GREATEST_COUNTED_ID))


def _raise_next_id(tx: Transaction, context: str, above: int) -> None:
    sql = "UPDATE registry_contexts SET next_id = ? WHERE name = ? AND next_id <= ?"
    tx.execute(sql, (above + 1, context, above))


def high_ids(tx: Transaction) -> dict[str, list[int]]:
    """Of each context the ids above ``GREATEST_COUNTED_ID`` that were given, also if their schema is gone."""
    found: dict[str, list[int]] = {}
    for context, id in tx.execute("SELECT context, id FROM registry_high_ids ORDER BY context, id"):
        found.setdefault(context, []).append(int(id))
    return found


def keep_high_id(tx: Transaction, context: str, id: int) -> None:
    """Never give it to another schema."""
    if id <= GREATEST_COUNTED_ID:
        return
    known = tx.execute("SELECT 1 FROM registry_high_ids WHERE context = ? AND id = ?", (context, id))
    if not known:
        tx.execute("INSERT INTO registry_high_ids (context, id) VALUES (?, ?)", (context, id))


def _count_high_id(tx: Transaction, context: str, id: int) -> None:
    """The next search for a free id begins after the one that this search found."""
    if id > GREATEST_COUNTED_ID:
        if id == next_id(tx, context):
            _raise_next_id(tx, context, id)
        keep_high_id(tx, context, id)


def counters(tx: Transaction) -> dict[str, int]:
    """The next id of each context."""
    rows = tx.execute("SELECT name FROM registry_contexts ORDER BY name")
    return {row[0]: next_id(tx, row[0]) for row in rows}


def greatest_id(tx: Transaction, context: str) -> int:
    sql = "SELECT COALESCE(MAX(id), 0) FROM registry_schemas WHERE context = ?"
    return int(tx.execute(sql, (context,))[0][0])


def insert(tx: Transaction, schema: StoredSchema) -> None:
    if schema.id > GREATEST_NUMBER:
        raise refusals.not_permitted(f"Context {schema.context} has no id left after {GREATEST_NUMBER}.")
    tx.execute(
        "INSERT INTO registry_schemas (context, id, guid, type, body, refs, metadata, rule_set, fingerprint,"
        " form, identity, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            schema.context,
            schema.id,
            schema.guid,
            schema.type,
            schema.text,
            packed_references(schema.references),
            _packed(schema.metadata),
            _packed(schema.rule_set),
            schema.fingerprint,
            schema.form,
            schema.identity,
            time.time(),
        ),
    )
    _refer(tx, schema)
    _count_high_id(tx, schema.context, schema.id)


def _refer(tx: Transaction, schema: StoredSchema) -> None:
    for reference in schema.references:
        target = parse_name(reference.contract, schema.context)
        tx.execute(
            "INSERT INTO registry_references VALUES (?, ?, ?, ?, ?)",
            (schema.context, schema.id, target.context, target.contract, reference.version),
        )


def unidentified(tx: Transaction, limit: int) -> Sequence[StoredSchema]:
    """Schemas from before identities were stored, or references got their numbers."""
    sql = (
        f"SELECT {COLUMNS} FROM registry_schemas s WHERE s.identity IS NULL ORDER BY s.context, s.id LIMIT ?"
    )
    return [from_row(row) for row in tx.execute(sql, (limit,))]


def identify(tx: Transaction, schema: StoredSchema) -> None:
    """Store its identity, and its references with their numbers, unless another node has done that."""
    tx.execute(
        "UPDATE registry_schemas SET refs = ?, form = ?, identity = ?"
        " WHERE context = ? AND id = ? AND identity IS NULL",
        (packed_references(schema.references), schema.form, schema.identity, schema.context, schema.id),
    )
    if tx.changed and schema.references:
        _release(tx, schema.context, schema.id)
        _refer(tx, schema)


def _release(tx: Transaction, context: str, id: int) -> None:
    tx.execute("DELETE FROM registry_references WHERE context = ? AND schema_id = ?", (context, id))


def delete_unused(tx: Transaction, context: str, id: int) -> bool:
    """Forget a schema that no version of any contract has any more."""
    used = tx.execute(
        "SELECT 1 FROM registry_versions WHERE context = ? AND schema_id = ? LIMIT 1", (context, id)
    )
    if used:
        return False
    _release(tx, context, id)
    tx.execute("DELETE FROM registry_schemas WHERE context = ? AND id = ?", (context, id))
    if id <= GREATEST_COUNTED_ID:
        raise_next_id(tx, context, id)
    return True


def referencing(
    tx: Transaction, target: ContractName, version: int, *, deleted: bool = False
) -> Sequence[int]:
    """Ids of the schemas that refer to this version and are themselves in use."""
    live = "" if deleted else " AND v.live_schema IS NOT NULL"
    rows = tx.execute(
        "SELECT DISTINCT r.schema_id FROM registry_references r"
        " JOIN registry_versions v ON v.context = r.context AND v.schema_id = r.schema_id"
        " WHERE r.target_context = ? AND r.target_contract = ? AND r.target_version = ?"
        f"{live} ORDER BY r.schema_id",
        (target.context, target.contract, version),
    )
    return [int(row[0]) for row in rows]


def packed_references(references: Sequence[Reference]) -> str:
    return json.dumps([(each.name, each.contract, each.version) for each in references])


def _packed(value: Json | None) -> str | None:
    return None if value is None else json.dumps(value, sort_keys=True)


def _unpacked(text: str | None) -> Json | None:
    return None if text is None else json.loads(text)
