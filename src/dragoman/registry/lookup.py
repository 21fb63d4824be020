"""Finding what is there: versions by number and by content, schemas by id."""

from __future__ import annotations

from dragoman.core.database import Transaction
from dragoman.registry import refusals
from dragoman.registry.model import GREATEST_NUMBER, LATEST, StoredVersion
from dragoman.registry.name import ContractName, parse_name
from dragoman.registry.proposal import Proposal
from dragoman.registry.store import contracts, settings


def version_number(text: str | int) -> int:
    """A version as it is written in a path: a number, ``latest`` or ``-1``."""
    if text in ("latest", LATEST, str(LATEST)):
        return LATEST
    try:
        number = int(text)
    except ValueError:
        raise refusals.invalid_version(text) from None
    if not 1 <= number <= GREATEST_NUMBER:
        raise refusals.invalid_version(text)
    return number


def version_of(tx: Transaction, name: ContractName, number: int, *, deleted: bool = False) -> StoredVersion:
    """Raises ``NotFound`` for the contract or for the version."""
    if number == LATEST:
        found = contracts.latest(tx, name, deleted=deleted)
    else:
        found = contracts.version(tx, name, number, deleted=deleted)
    if found is None:
        if not exists(tx, name, deleted=deleted):
            raise refusals.no_contract(name)
        raise refusals.no_version(number)
    return found


def previous(tx: Transaction, name: ContractName, newer: int) -> int:
    """The version before this one, itself if it is the first."""
    earlier = [each for each, _ in contracts.numbers(tx, name) if each < newer]
    return earlier[-1] if earlier else newer


def exists(tx: Transaction, name: ContractName, *, deleted: bool = False) -> bool:
    return any(deleted or not hidden for _, hidden in contracts.numbers(tx, name))


def with_content(
    tx: Transaction, name: ContractName, proposal: Proposal, *, deleted: bool = False
) -> StoredVersion | None:
    """The version with this content; a bare schema also finds one that has metadata or rules.

    A version with the very text comes before one that only means the same, and of these the newest is found.
    """
    schema = proposal.schema
    found = contracts.having_guid(tx, name, schema.type, schema.guid, deleted=deleted)
    if found is not None:
        return found
    if proposal.bare:
        versions = contracts.having_form(tx, name, schema.form, deleted=deleted)
    else:
        versions = contracts.having_identity(tx, name, schema.identity, deleted=deleted)
    equal = [each for each in versions if proposal.has_text_of(each.schema)]
    exact = (each for each in equal if each.schema.identity == schema.identity)
    return next(exact, equal[0] if equal else None)


def unaliased(tx: Transaction, name: ContractName) -> ContractName:
    """The contract that an alias stands for; aliases of aliases are not followed."""
    own = settings.own(tx, name)
    if own is None or not own.alias:
        return name
    return parse_name(own.alias, name.context)
