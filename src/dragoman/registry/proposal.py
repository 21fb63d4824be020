"""A draft made ready: parsed, normalised, completed with metadata and rules, and named by its content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dragoman.core.database import Transaction
from dragoman.core.errors import SchemaError
from dragoman.registry.identity import guid_of
from dragoman.registry.model import Draft, Json, Settings, StoredSchema, StoredVersion
from dragoman.registry.name import ContractName
from dragoman.registry.parsing import Parsed, Parser

UNNUMBERED = 0


class Proposal(NamedTuple):
    """``schema`` has no id yet. ``parsed`` is missing for an import that could not be parsed."""

    schema: StoredSchema
    parsed: Parsed | None
    bare: bool
    """The draft brought neither metadata nor rules."""


def propose(
    tx: Transaction, parser: Parser, name: ContractName, draft: Draft, *, normalize: bool
) -> Proposal:
    """Raises ``InvalidSchema``."""
    parsed = parser.parse(tx, draft.type, draft.text, draft.references, name.context)
    text = parsed.schema.normalised(2 if normalize else 1)
    return _named(name, draft, text, parsed)


def propose_next(
    tx: Transaction,
    parser: Parser,
    name: ContractName,
    draft: Draft,
    latest: StoredVersion | None,
    settings: Settings,
    *,
    normalize: bool,
) -> Proposal:
    """What registering would store after the latest version, which says what the draft leaves unsaid."""
    whole = completed(draft, latest.schema if latest else None, settings)
    proposal = propose(tx, parser, name, whole, normalize=normalize or bool(settings.normalize))
    return proposal._replace(bare=draft.metadata is None and draft.rule_set is None)


def propose_import(tx: Transaction, parser: Parser, name: ContractName, draft: Draft) -> Proposal:
    """The draft as it is: what another registry accepted is not judged again."""
    parser.check(draft.type, draft.text, draft.references)
    try:
        parsed: Parsed | None = parser.parse(tx, draft.type, draft.text, draft.references, name.context)
    except SchemaError:
        parsed = None
    return _named(name, draft, draft.text, parsed)


def _named(name: ContractName, draft: Draft, text: str, parsed: Parsed | None) -> Proposal:
    guid = guid_of(text, draft.references, draft.metadata, draft.rule_set)
    schema = StoredSchema(
        name.context,
        UNNUMBERED,
        guid,
        draft.type,
        text,
        draft.references,
        draft.metadata,
        draft.rule_set,
        parsed.schema.fingerprint if parsed else None,
    )
    return Proposal(schema, parsed, draft.metadata is None and draft.rule_set is None)


def completed(draft: Draft, previous: StoredSchema | None, settings: Settings) -> Draft:
    """Metadata and rules: what the draft says, else the previous version, within defaults and overrides."""
    metadata = draft.metadata
    rule_set = draft.rule_set
    if previous is not None:
        metadata = previous.metadata if metadata is None else metadata
        rule_set = previous.rule_set if rule_set is None else rule_set
    return Draft(
        draft.type,
        draft.text,
        draft.references,
        _merged_metadata(settings.default_metadata, metadata, settings.override_metadata),
        _merged_rules(settings.default_rule_set, rule_set, settings.override_rule_set),
        draft.id,
        draft.version,
    )


def _merged_metadata(*layers: Json | None) -> Json | None:
    given = [layer for layer in layers if layer]
    if not given:
        return None
    merged: dict[str, Any] = {}
    for layer in given:
        for part, value in layer.items():
            before = merged.get(part)
            if isinstance(value, Mapping) and isinstance(before, Mapping):
                merged[part] = {**before, **value}
            elif isinstance(value, list) and isinstance(before, list):
                merged[part] = sorted({*before, *value})
            elif value is not None:
                merged[part] = value
    return merged


def _merged_rules(*layers: Json | None) -> Json | None:
    """Rules of one name replace each other; their order is that of the first mention."""
    given = [layer for layer in layers if layer]
    if not given:
        return None
    merged: dict[str, Any] = {}
    for layer in given:
        for part, value in layer.items():
            if isinstance(value, list) and all(isinstance(rule, Mapping) for rule in value):
                named = {rule.get("name"): rule for rule in merged.get(part, [])}
                named.update({rule.get("name"): rule for rule in value})
                merged[part] = list(named.values())
            elif value is not None:
                merged[part] = value
    return merged
