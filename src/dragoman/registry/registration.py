"""Registering a schema in a contract: find it, or judge it, number it and store it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from dragoman.core.database import Transaction
from dragoman.core.errors import InvalidSchema, SchemaError
from dragoman.registry import refusals
from dragoman.registry.checking import judge, refusal
from dragoman.registry.lookup import with_content
from dragoman.registry.model import Draft, Mode, Settings, StoredVersion
from dragoman.registry.name import ContractName
from dragoman.registry.parsing import Parser
from dragoman.registry.proposal import Proposal, propose_import, propose_next
from dragoman.registry.rules import check_rules
from dragoman.registry.store import contracts, history, schemas, settings


@dataclass(frozen=True, slots=True)
class Registration:
    """One request to register. ``force`` skips the compatibility check."""

    name: ContractName
    draft: Draft
    normalize: bool = False
    force: bool = False
    author: str = ""


class Standing(NamedTuple):
    """What decides about a registration, read at once."""

    settings: Settings
    mode: Mode
    latest: StoredVersion | None


def already_there(tx: Transaction, parser: Parser, asked: Registration) -> StoredVersion | None:
    """The version that the request would be answered with without any write. No lock is taken."""
    if asked.draft.id is not None or asked.draft.version is not None:
        return None
    latest = contracts.latest(tx, asked.name)
    if latest is None:
        # Who writes it will do so under a lock, and then finds it parsed.
        with suppress(SchemaError):
            parser.parse(tx, asked.draft.type, asked.draft.text, asked.draft.references, asked.name.context)
        return None
    standing = Standing(*settings.in_force(tx, asked.name), latest)
    return _find(tx, asked.name, _proposal(tx, parser, asked, standing), standing)


def register(tx: Transaction, parser: Parser, asked: Registration) -> StoredVersion:
    """The version with this content, made if need be. Runs in a write transaction."""
    name = asked.name
    standing = _standing(tx, name)
    _check_mode(name, asked.draft, standing.mode)
    if standing.mode.importing:
        return import_version(tx, parser, asked)
    proposal = _proposal(tx, parser, asked, standing)
    found = _find(tx, name, proposal, standing)
    if found is not None:
        return found
    place = schemas.place(tx, name, proposal.schema.identity)
    if asked.draft.version not in (None, place.next_version):
        raise InvalidSchema("Version is not one more than previous version")
    if standing.settings.validate_rules:
        check_rules(asked.draft.rule_set)
        check_rules(proposal.schema.rule_set)
    if not asked.force:
        _check_compatible(tx, parser, name, proposal, standing)
    return _store(tx, asked, proposal, place)


def _standing(tx: Transaction, name: ContractName) -> Standing:
    return Standing(*settings.in_force(tx, name), contracts.latest(tx, name))


def _find(
    tx: Transaction, name: ContractName, proposal: Proposal, standing: Standing
) -> StoredVersion | None:
    return with_content(tx, name, proposal) if standing.latest is not None else None


def _proposal(tx: Transaction, parser: Parser, asked: Registration, standing: Standing) -> Proposal:
    settings, latest = standing.settings, standing.latest
    return propose_next(tx, parser, asked.name, asked.draft, latest, settings, normalize=asked.normalize)


def _check_mode(name: ContractName, draft: Draft, mode: Mode) -> None:
    if not mode.writable:
        raise refusals.read_only(name)
    if draft.id is not None and not mode.importing:
        raise refusals.not_permitted(f"Subject {name} in context {name.context} is not in import mode")
    if draft.id is None and mode is not Mode.READWRITE:
        raise refusals.not_permitted(f"Subject {name} in context {name.context} is not in read-write mode")


def _check_compatible(
    tx: Transaction, parser: Parser, name: ContractName, proposal: Proposal, standing: Standing
) -> None:
    chosen, existing = standing.settings, [each for each in (standing.latest,) if each]
    strategy = chosen.compatibility
    if chosen.group is not None or (strategy is not None and strategy.transitive):
        existing = list(contracts.versions(tx, name))
    verdict = judge(tx, parser, proposal, existing, chosen)
    if not verdict.compatible:
        old = next((each for each in existing if each.version == verdict.version), None)
        raise refusal(name, verdict, old, chosen)


def _store(tx: Transaction, asked: Registration, proposal: Proposal, place: schemas.Place) -> StoredVersion:
    name, number, known = asked.name, place.next_version, proposal.choose(place.known)
    if known is None:
        known = replace(proposal.schema, id=place.next_id)
        schemas.insert(tx, known)
    contracts.insert(tx, name, number, known.id, asked.author)
    history.record(tx, asked.author, "register", name, number, {"id": known.id, "type": known.type})
    return StoredVersion(name, number, known, author=asked.author)


def import_version(tx: Transaction, parser: Parser, asked: Registration) -> StoredVersion:
    """Id and version as given: the content moves in as it was elsewhere."""
    name, draft = asked.name, asked.draft
    proposal = propose_import(tx, parser, name, draft)
    id = schemas.next_id(tx, name.context) if draft.id is None else draft.id
    number = contracts.next_version(tx, name) if draft.version is None else draft.version
    taken = contracts.version(tx, name, number, deleted=True)
    if taken is not None and taken.schema.id == id and proposal.is_content_of(taken.schema):
        return taken
    if taken is not None:
        raise refusals.not_permitted(f"Overwrite version {number} of subject {name} is not permitted.")
    known = schemas.by_id(tx, name.context, id)
    if known is not None and not proposal.is_content_of(known):
        raise refusals.not_permitted(f"Overwrite new schema with id {id} is not permitted.")
    live = None if known is None else contracts.having_schema(tx, name, id)
    if live is not None and draft.version is None:
        return live
    if live is not None:
        raise refusals.not_permitted(f"Subject {name} has this schema already, as version {live.version}.")
    if known is None:
        known = replace(proposal.schema, id=id)
        schemas.insert(tx, known)
    contracts.insert(tx, name, number, id, asked.author)
    history.record(tx, asked.author, "import", name, number, {"id": id, "type": known.type})
    return StoredVersion(name, number, known, author=asked.author)
