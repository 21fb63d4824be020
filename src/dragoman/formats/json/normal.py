"""One text for schemas that differ in layout, or in the order of what has none."""

from __future__ import annotations

import hashlib
from typing import Any

from dragoman.formats.json.document import compact, pointer
from dragoman.formats.json.draft import LIST, NAMED, ONE
from dragoman.formats.json.link import SCHEME, Linked, above, place_of

_SETS = frozenset({"required", "enum", "type"})
_ALTERNATIVES = frozenset({"allOf", "anyOf", "oneOf"})
_DOCUMENTATION = frozenset(
    {"title", "description", "$comment", "examples", "$schema", "deprecated", "readOnly", "writeOnly"}
)


def ordered(schema: Any, pinned: frozenset[str] = frozenset(), path: str = "") -> Any:
    """A schema with its keys, its sets and its alternatives in one order.

    ``pinned`` are the pointers that references lead through: a list at one of them keeps its order.
    """
    if not isinstance(schema, dict):
        return schema
    return {
        keyword: _ordered_keyword(keyword, schema[keyword], pinned, f"{path}{pointer((keyword,))}")
        for keyword in sorted(schema)
    }


def _ordered_keyword(keyword: str, value: Any, pinned: frozenset[str], path: str) -> Any:
    if keyword in _SETS and isinstance(value, list):
        members = _distinct([plain(each) for each in value])
        return members[0] if keyword == "type" and len(members) == 1 else members
    if keyword in NAMED and isinstance(value, dict):
        return {
            name: _ordered_member(keyword, value[name], pinned, f"{path}{pointer((name,))}")
            for name in sorted(value)
        }
    if keyword == "dependentRequired" and isinstance(value, dict):
        return {name: _names(value[name]) for name in sorted(value)}
    if keyword in LIST and isinstance(value, list):
        members = [ordered(each, pinned, f"{path}/{index}") for index, each in enumerate(value)]
        fixed = keyword not in _ALTERNATIVES or path in pinned
        return members if fixed else sorted(members, key=compact)
    if keyword in ONE:
        return ordered(value, pinned, path)
    return plain(value)


def _ordered_member(keyword: str, value: Any, pinned: frozenset[str], path: str) -> Any:
    if keyword == "dependencies" and isinstance(value, list):
        return _names(value)
    return ordered(value, pinned, path)


def _names(value: Any) -> Any:
    """A set of names. A keyword that its draft does not know may hold anything."""
    names = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return sorted(set(value)) if names else plain(value)


def _distinct(members: list[Any]) -> list[Any]:
    """Sorted, each once. ``1`` and ``1.0`` are equal in JSON Schema, ``1`` and ``true`` are not."""
    by_text = {compact(each): each for each in members}
    return [by_text[text] for text in sorted(by_text)]


def plain(value: Any) -> Any:
    """A value with sorted keys, and whole numbers written as such."""
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def fingerprint(linked: Linked) -> str:
    """A hash of what the documents mean, without documentation and without the names of references."""
    documents = [
        [draft.name, ordered(undocumented(document), referenced(linked, number))]
        for number, (document, draft) in enumerate(zip(linked.documents, linked.drafts, strict=True))
    ]
    return hashlib.sha256(compact(documents).encode("utf-8", "surrogatepass")).hexdigest()


def referenced(linked: Linked, number: int) -> frozenset[str]:
    """The pointers above all those in one document that references lead to, of whichever document."""
    found: set[str] = set()
    pending = list(linked.documents)
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            target = value.get("$ref")
            if isinstance(target, str) and target.startswith(f"{SCHEME}{number}#"):
                found.update(above(place_of(target).pointer))
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return frozenset(found)


def undocumented(schema: Any) -> Any:
    """A schema without what only people read."""
    if not isinstance(schema, dict):
        return schema
    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _DOCUMENTATION:
            continue
        if keyword in ONE and isinstance(value, dict):
            copy[keyword] = undocumented(value)
        elif keyword in LIST and isinstance(value, list):
            copy[keyword] = [undocumented(each) for each in value]
        elif keyword in NAMED and isinstance(value, dict):
            copy[keyword] = {name: undocumented(each) for name, each in value.items()}
        else:
            copy[keyword] = value
    return copy
