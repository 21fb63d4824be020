"""An Avro schema with the types that it takes from other contracts written out in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dragoman.core.database import Transaction
from dragoman.registry.model import LATEST, StoredSchema, StoredVersion
from dragoman.registry.name import ContractName, parse_name
from dragoman.registry.parsing import Parser
from dragoman.registry.store import contracts

_NAMED = frozenset({"record", "error", "enum", "fixed"})


def inlined(tx: Transaction, parser: Parser, schema: StoredSchema) -> str:
    """The schema, valid by itself. It parsed before, so its references lead somewhere."""
    definitions: dict[str, Any] = {}
    _collect(tx, parser, schema, definitions)
    written = _written(_content(tx, parser, schema), definitions, set())
    return json.dumps(written, separators=(",", ":"), ensure_ascii=False)


def referenced(tx: Transaction, schema: StoredSchema) -> frozenset[ContractName]:
    """All contracts that a schema takes types from, directly and through others."""
    found: set[ContractName] = set()
    waiting, seen = [schema], set[tuple[str, int]]()
    while waiting:
        for target, version in _targets(tx, waiting.pop()):
            found.add(target)
            if version is not None and (target.context, version.schema.id) not in seen:
                seen.add((target.context, version.schema.id))
                waiting.append(version.schema)
    return frozenset(found)


def _targets(tx: Transaction, schema: StoredSchema) -> Iterator[tuple[ContractName, StoredVersion | None]]:
    for reference in schema.references:
        target = parse_name(reference.contract, schema.context)
        if reference.version == LATEST:
            yield target, contracts.latest(tx, target)
        else:
            yield target, contracts.version(tx, target, reference.version, deleted=True)


def _collect(tx: Transaction, parser: Parser, schema: StoredSchema, definitions: dict[str, Any]) -> None:
    for _, found in _targets(tx, schema):
        if found is not None:
            _collect(tx, parser, found.schema, definitions)
            _define(_content(tx, parser, found.schema), definitions)


def _content(tx: Transaction, parser: Parser, schema: StoredSchema) -> Any:
    """Normalised, so that every name is a full one."""
    parsed = parser.parse(tx, schema.type, schema.text, schema.references, schema.context)
    return json.loads(parsed.schema.normalised(2))


def _define(content: Any, definitions: dict[str, Any]) -> None:
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            if value.get("type") in _NAMED:
                definitions.setdefault(value["name"], value)
            waiting += [value[part] for part in ("type", "items", "values", "fields") if part in value]


def _written(content: Any, definitions: dict[str, Any], seen: set[str]) -> Any:
    """With each name from elsewhere replaced by its definition where it is first used."""
    if isinstance(content, str):
        if content in definitions and content not in seen:
            return _written(definitions[content], definitions, seen)
        return content
    if isinstance(content, list):
        return [_written(each, definitions, seen) for each in content]
    if content.get("type") in _NAMED:
        if content["name"] in seen:
            return content["name"]
        seen.add(content["name"])
    parts = dict(content)
    for part in ("type", "items", "values"):
        if part in parts and not (isinstance(parts[part], str) and parts[part] in _NAMED):
            parts[part] = _written(parts[part], definitions, seen)
    if "fields" in parts:
        parts["fields"] = [
            {**field, "type": _written(field["type"], definitions, seen)} for field in parts["fields"]
        ]
    return parts
