"""Modes of a contract, a context or all: who may write, and whether ids are given or taken."""

from __future__ import annotations

from dragoman.core.database import Transaction
from dragoman.registry import refusals
from dragoman.registry.model import Mode
from dragoman.registry.name import DEFAULT_CONTEXT, GLOBAL_CONTEXT, ContractName
from dragoman.registry.store import contracts, history, schemas, settings


def mode_named(text: str) -> Mode:
    try:
        return Mode(text.upper())
    except ValueError:
        raise refusals.invalid_mode() from None


def require_writable(tx: Transaction, scope: ContractName) -> None:
    """Raises ``Conflict`` in a read-only mode. Modes can be set all the same."""
    if not settings.effective_mode(tx, scope).writable:
        raise refusals.read_only(scope)


def set_mode(tx: Transaction, scope: ContractName, mode: Mode, *, force: bool, author: str) -> None:
    """Imports may only begin where nothing is yet, unless forced; hidden leftovers are removed then."""
    if mode.importing and settings.own_mode(tx, scope) is not mode:
        if not force:
            _require_empty(tx, scope)
        _purge_hidden(tx, scope)
    settings.set_mode(tx, scope, mode)
    history.record(tx, author, "mode", scope, None, {"mode": mode.value})


def clear_mode(tx: Transaction, scope: ContractName, *, recursive: bool, author: str) -> Mode:
    """Back to the wider scope's mode; the mode that was set."""
    before = settings.own_mode(tx, scope)
    if before is None and scope.contract:
        raise refusals.no_contract(scope)
    settings.set_mode(tx, scope, None)
    if recursive and not scope.contract:
        settings.clear_within(tx, scope.context)
    history.record(tx, author, "mode", scope, None, {"mode": None})
    return before or Mode.READWRITE


def _within(scope: ContractName, name: ContractName) -> bool:
    if scope.contract:
        return name == scope
    return scope.context in (name.context, GLOBAL_CONTEXT) or scope.context == DEFAULT_CONTEXT


def _require_empty(tx: Transaction, scope: ContractName) -> None:
    if any(_within(scope, name) for name in contracts.names(tx)):
        raise refusals.not_permitted("Cannot import since found existing subjects")


def _purge_hidden(tx: Transaction, scope: ContractName) -> None:
    for name in contracts.names(tx, deleted=True, live=True):
        if not _within(scope, name):
            continue
        for version in contracts.versions(tx, name, deleted=True):
            if version.deleted and not schemas.referencing(tx, name, version.version):
                contracts.remove(tx, name, version.version)
                schemas.delete_unused(tx, name.context, version.schema.id)
