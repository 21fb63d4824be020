"""Settings and modes of a contract, of a context (an empty contract name), or of all."""

# ruff: noqa: S608 - only constants of this package are joined into SQL, values are always parameters.

from __future__ import annotations

import json

from dragoman.core.database import Transaction
from dragoman.registry.model import DEFAULTS, Mode, Settings
from dragoman.registry.name import DEFAULT_CONTEXT, GLOBAL_CONTEXT, ContractName

_WHERE = " WHERE context = ? AND contract = ?"

_Rows = list[tuple[ContractName, tuple[str | None, str | None]]]
"""Settings and mode, as stored, of each scope that has any."""


def scopes(name: ContractName) -> list[ContractName]:
    """From the contract outwards: itself, its context, the default context, the global one."""
    wider = [
        ContractName(name.context, ""),
        ContractName(DEFAULT_CONTEXT, ""),
        ContractName(GLOBAL_CONTEXT, ""),
    ]
    return list(dict.fromkeys([name, *wider]))


def own(tx: Transaction, name: ContractName) -> Settings | None:
    """What is set at this very scope."""
    rows = tx.execute("SELECT settings FROM registry_settings" + _WHERE, name)
    if not rows or rows[0][0] is None:
        return None
    return Settings.restored(json.loads(rows[0][0]))


def in_force(tx: Transaction, name: ContractName) -> tuple[Settings, Mode]:
    """What counts for this contract once the wider scopes are asked."""
    found = _rows(tx, name)
    return _effective(name, found), _effective_mode(found)


def effective(tx: Transaction, name: ContractName) -> Settings:
    return _effective(name, _rows(tx, name))


def effective_mode(tx: Transaction, name: ContractName) -> Mode:
    return _effective_mode(_rows(tx, name))


def _effective(name: ContractName, rows: _Rows) -> Settings:
    chosen = Settings()
    for scope, (text, _) in rows:
        if text is not None:
            mine = Settings.restored(json.loads(text))
            chosen = chosen.over(mine) if scope != name else mine.over(chosen)
    return chosen.over(DEFAULTS)


def _effective_mode(rows: _Rows) -> Mode:
    found = [Mode(mode) for _, (_, mode) in rows if mode]
    # READONLY_OVERRIDE of a wider scope beats whatever the contract says.
    if Mode.READONLY_OVERRIDE in found:
        return Mode.READONLY_OVERRIDE
    return found[0] if found else Mode.READWRITE


def set_own(tx: Transaction, name: ContractName, settings: Settings | None) -> None:
    _put(tx, name, "settings", None if settings is None else json.dumps(settings.stored()))


def own_mode(tx: Transaction, name: ContractName) -> Mode | None:
    rows = tx.execute("SELECT mode FROM registry_settings" + _WHERE, name)
    return Mode(rows[0][0]) if rows and rows[0][0] else None


def set_mode(tx: Transaction, name: ContractName, mode: Mode | None) -> None:
    _put(tx, name, "mode", None if mode is None else mode.value)


def everything(tx: Transaction) -> list[tuple[ContractName, Settings | None, Mode | None]]:
    rows = tx.execute(
        "SELECT context, contract, settings, mode FROM registry_settings ORDER BY context, contract"
    )
    return [
        (
            ContractName(context, contract),
            Settings.restored(json.loads(text)) if text else None,
            Mode(mode) if mode else None,
        )
        for context, contract, text, mode in rows
        if text or mode
    ]


def clear_within(tx: Transaction, context: str) -> None:
    """Forget the modes of all contracts in a context."""
    tx.execute("UPDATE registry_settings SET mode = NULL WHERE context = ? AND contract <> ''", (context,))


def _rows(tx: Transaction, name: ContractName) -> _Rows:
    wanted = scopes(name)
    rows = tx.execute(
        "SELECT context, contract, settings, mode FROM registry_settings"
        " WHERE context IN (?, ?, ?) AND contract IN ('', ?)",
        (name.context, DEFAULT_CONTEXT, GLOBAL_CONTEXT, name.contract),
    )
    found = {ContractName(row[0], row[1]): (row[2], row[3]) for row in rows}
    return [(scope, found[scope]) for scope in wanted if scope in found]


def _put(tx: Transaction, name: ContractName, column: str, value: str | None) -> None:
    tx.execute(f"UPDATE registry_settings SET {column} = ?" + _WHERE, (value, *name))
    if not tx.changed and value is not None:
        tx.execute(
            f"INSERT INTO registry_settings (context, contract, {column}) VALUES (?, ?, ?)", (*name, value)
        )
