"""A draft made ready: parsed, normalised, completed with metadata and rules, and named by its content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dragoman.core.database import Transaction
from dragoman.core.errors import SchemaError
from dragoman.registry.identity import digest_of, form_of, guid_of, identity_of
from dragoman.registry.model import Draft, Json, Settings, StoredSchema, StoredVersion
from dragoman.registry.name import ContractName
from dragoman.registry.parsing import Parsed, Parser
from dragoman.registry.rules import tidy_metadata, tidy_rule_set

UNNUMBERED = 0

_COMPARED_PARSED = frozenset({"AVRO"})
"""Formats whose texts say the same in any order. The order that other texts have counts, as it does in
Confluent's registry, unless the request or the contract normalises."""


class Proposal(NamedTuple):
    """``schema`` has no id yet. ``parsed`` is missing for an import that could not be parsed."""

    schema: StoredSchema
    parsed: Parsed | None
    bare: bool
    """The draft brought neither metadata nor rules."""
    normal: str
    """The digest of the normal form."""
    normalized: bool
    """Any text of this normal form is the same schema."""

    def has_text_of(self, schema: StoredSchema) -> bool:
        """Whether a schema of the same form is this one too, or only becomes it by being normalised."""
        text = schema.text
        return self.normalized or text == self.schema.text or digest_of(text) == self.normal

    def is_content_of(self, schema: StoredSchema) -> bool:
        own = self.schema
        if schema.guid == own.guid and schema.type == own.type:
            return True
        return schema.identity == own.identity and self.has_text_of(schema)

    def choose(self, known: Sequence[StoredSchema]) -> StoredSchema | None:
        """Of stored schemas of the same identity the one that is this, with this very text if it is there."""
        exact = (each for each in known if each.guid == self.schema.guid)
        return next(exact, None) or next((each for each in known if self.has_text_of(each)), None)


def propose(
    tx: Transaction, parser: Parser, name: ContractName, draft: Draft, *, normalize: bool
) -> Proposal:
    """Raises ``InvalidSchema``."""
    draft = replace(draft, references=parser.pinned(tx, draft.references, name.context))
    parsed = parser.parse(tx, draft.type, draft.text, draft.references, name.context)
    text = parsed.schema.normalised(2 if normalize else 1)
    return _named(name, draft, text, parsed, normalize)


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
    draft = replace(draft, references=parser.pinned(tx, draft.references, name.context))
    try:
        parsed: Parsed | None = parser.parse(tx, draft.type, draft.text, draft.references, name.context)
    except SchemaError:
        parsed = None
    proposal = _named(name, draft, draft.text, parsed, False)
    if parsed is None:
        return proposal
    # The text stays as it is, but it is found by the GUID that it would have been registered with.
    guid = guid_of(
        parsed.schema.normalised(1), draft.references, proposal.schema.metadata, proposal.schema.rule_set
    )
    return proposal._replace(schema=replace(proposal.schema, guid=guid))


def _named(name: ContractName, draft: Draft, text: str, parsed: Parsed | None, normalize: bool) -> Proposal:
    metadata, rule_set = tidy_metadata(draft.metadata), tidy_rule_set(draft.rule_set)
    schema = StoredSchema(
        name.context,
        UNNUMBERED,
        guid_of(text, draft.references, metadata, rule_set),
        draft.type,
        text,
        draft.references,
        metadata,
        rule_set,
        parsed.schema.fingerprint if parsed else None,
    )
    normal = parsed.normal if parsed else digest_of(text)
    bare = metadata is None and rule_set is None
    normalized = normalize or (parsed is not None and draft.type in _COMPARED_PARSED)
    return Proposal(identified(schema, normal), parsed, bare, normal, normalized)


def identified(schema: StoredSchema, normal: str) -> StoredSchema:
    """With its form and its identity. ``normal`` is the digest of the normal form."""
    form = form_of(schema.type, normal, schema.references)
    identity = identity_of(form, tidy_metadata(schema.metadata), tidy_rule_set(schema.rule_set))
    return replace(schema, form=form, identity=identity)


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
            elif part == "sensitive" and isinstance(value, list) and isinstance(before, list):
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
