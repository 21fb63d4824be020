"""The history of all changes, and the bindings of contracts to channels."""

# ruff: noqa: S608 - only constants of this package are joined into SQL, values are always parameters.

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from dragoman.core.database import Row, Transaction
from dragoman.registry.model import Change, Json
from dragoman.registry.name import ContractName

_COLUMNS = "id, happened, author, action, context, contract, version, detail"


def _from_row(row: Row) -> Change:
    id, at, author, action, context, contract, version, detail = row
    number = None if version is None else int(version)
    return Change(
        int(id), float(at), author, action, ContractName(context, contract), number, json.loads(detail)
    )


def record(
    tx: Transaction,
    author: str,
    action: str,
    name: ContractName,
    version: int | None = None,
    detail: Json | None = None,
) -> None:
    tx.execute(
        "INSERT INTO registry_history (happened, author, action, context, contract, version, detail)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (time.time(), author[:255], action, *name, version, json.dumps(detail or {})),
    )


def of_contract(tx: Transaction, name: ContractName, limit: int = 1000) -> Sequence[Change]:
    """Newest first."""
    sql = (
        f"SELECT {_COLUMNS} FROM registry_history WHERE contract = ? AND context = ? ORDER BY id DESC LIMIT ?"
    )
    return [_from_row(row) for row in tx.execute(sql, (name.contract, name.context, limit))]


def everything(tx: Transaction, limit: int = 1000) -> Sequence[Change]:
    sql = f"SELECT {_COLUMNS} FROM registry_history ORDER BY id DESC LIMIT ?"
    return [_from_row(row) for row in tx.execute(sql, (limit,))]


def since(tx: Transaction, id: int) -> Sequence[Change]:
    """Changes above an id, in order. One with a lower id may still be committed later."""
    sql = f"SELECT {_COLUMNS} FROM registry_history WHERE id > ? ORDER BY id LIMIT 10000"
    return [_from_row(row) for row in tx.execute(sql, (id,))]


def among(tx: Transaction, ids: Sequence[int]) -> Sequence[Change]:
    """Those of these changes that there are."""
    if not ids:
        return []
    marks = ", ".join("?" * len(ids))
    return [
        _from_row(row)
        for row in tx.execute(f"SELECT {_COLUMNS} FROM registry_history WHERE id IN ({marks})", ids)
    ]


def newest(tx: Transaction) -> int:
    return int(tx.execute("SELECT COALESCE(MAX(id), 0) FROM registry_history")[0][0])


def bind(tx: Transaction, name: ContractName, channel: str, author: str) -> bool:
    """Tie a channel to a contract; ``False`` if it was tied before."""
    if channel in channels_of(tx, name):
        return False
    tx.execute(
        "INSERT INTO registry_bindings (context, contract, channel, created, author) VALUES (?, ?, ?, ?, ?)",
        (*name, channel, time.time(), author),
    )
    record(tx, author, "bind", name, None, {"channel": channel})
    return True


def unbind(tx: Transaction, name: ContractName, channel: str, author: str) -> bool:
    """``False`` if it was not tied."""
    tx.execute(
        "DELETE FROM registry_bindings WHERE context = ? AND contract = ? AND channel = ?", (*name, channel)
    )
    if not tx.changed:
        return False
    record(tx, author, "unbind", name, None, {"channel": channel})
    return True


def channels_of(tx: Transaction, name: ContractName) -> Sequence[str]:
    """In the order in which they were bound."""
    sql = "SELECT channel FROM registry_bindings WHERE context = ? AND contract = ? ORDER BY created, channel"
    return [row[0] for row in tx.execute(sql, name)]


def contracts_of(tx: Transaction, channel: str) -> Sequence[ContractName]:
    sql = "SELECT context, contract FROM registry_bindings WHERE channel = ? ORDER BY context, contract"
    return [ContractName(*row) for row in tx.execute(sql, (channel,))]
