"""Deleting in two steps: hidden first, gone second. Version numbers are not given again either way."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.core.database import Transaction
from dragoman.registry import refusals
from dragoman.registry.model import LATEST
from dragoman.registry.modes import require_writable
from dragoman.registry.name import ContractName
from dragoman.registry.store import contracts, history, schemas, settings


def delete_contract(tx: Transaction, name: ContractName, *, permanent: bool, author: str) -> Sequence[int]:
    """The numbers of the versions that were hidden, or are gone."""
    require_writable(tx, name)
    numbers = contracts.numbers(tx, name)
    if not numbers:
        raise refusals.no_contract(name)
    live = [number for number, hidden in numbers if not hidden]
    if permanent and live:
        raise refusals.contract_not_deleted_first(name)
    if not permanent and not live:
        raise refusals.contract_deleted_already(name)
    doomed = live or [number for number, _ in numbers]
    for number in doomed:
        _check_unreferenced(tx, name, number)
    for number in doomed:
        _drop(tx, name, number, permanent=permanent)
    if permanent:
        settings.set_own(tx, name, None)
        settings.set_mode(tx, name, None)
        for channel in history.channels_of(tx, name):
            history.unbind(tx, name, channel, author)
    history.record(tx, author, _action(permanent), name, None, {"versions": doomed})
    return doomed


def delete_version(tx: Transaction, name: ContractName, number: int, *, permanent: bool, author: str) -> int:
    require_writable(tx, name)
    numbers = contracts.numbers(tx, name)
    if not numbers or (not permanent and all(hidden for _, hidden in numbers)):
        raise refusals.no_contract(name)
    if number == LATEST:
        number = max((each for each, hidden in numbers if permanent or not hidden), default=0)
    hidden = dict(numbers).get(number)
    if hidden is None:
        raise refusals.no_version(number)
    if permanent and not hidden:
        raise refusals.version_not_deleted_first(name, number)
    if not permanent and hidden:
        raise refusals.version_deleted_already(name, number)
    _check_unreferenced(tx, name, number)
    _drop(tx, name, number, permanent=permanent)
    history.record(tx, author, _action(permanent), name, number)
    return number


def _drop(tx: Transaction, name: ContractName, number: int, *, permanent: bool) -> None:
    if not permanent:
        contracts.hide(tx, name, number)
        return
    found = contracts.version(tx, name, number, deleted=True)
    contracts.remove(tx, name, number)
    if found is not None:
        schemas.delete_unused(tx, name.context, found.schema.id)


def _check_unreferenced(tx: Transaction, name: ContractName, number: int) -> None:
    if schemas.referencing(tx, name, number):
        raise refusals.referenced(name, number)


def _action(permanent: bool) -> str:
    return "delete" if permanent else "hide"
