"""Parsing and validating Avro schemas. A fault is an ``InvalidSchema`` with a JSON pointer to its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from dragoman.core.characters import check_json_characters
from dragoman.core.errors import InvalidSchema
from dragoman.formats.avro.deep import Budget, Deep, Spent, done, run
from dragoman.formats.avro.defaults import fault_in_default
from dragoman.formats.avro.jsontext import dumps, loads
from dragoman.formats.avro.nodes import (
    MISSING,
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Node,
    Place,
    Primitive,
    Record,
    Union,
    label,
)
from dragoman.schema.logical import logical_of

MAX_DEPTH = 4_096
"""Levels of types inside types. Far more than anyone writes, few enough to stay cheap."""

MAX_DEFAULTS = 50_000
"""Values in all defaults, with those that the defaults inside them add."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ORDERS = ("ascending", "descending", "ignore")


def parse(text: str, known: Mapping[str, Named]) -> tuple[Node, dict[str, Named]]:
    """The root and the types that the text defines. ``known`` are those that other schemas define."""
    try:
        content = loads(text)
    except ValueError as error:
        raise InvalidSchema(f"This is not JSON: {error}.", code="schema.invalid.json") from error
    check_json_characters(text, lambda: dumps(content))
    parser = _Parser(known)
    root = run(parser.node(content, "", Place(), 0))
    parser.check_defaults()
    return root, parser.defined


def _refuse(place: Place, what: str, code: str, next: str = "") -> NoReturn:
    raise InvalidSchema(what, code=f"schema.invalid.{code}", next=next, pointer=str(place) or "/")


class _Parser:
    def __init__(self, known: Mapping[str, Named]) -> None:
        self.known = known
        self.defined: dict[str, Named] = {}
        self.fields: list[Field] = []

    def node(self, content: Any, namespace: str, place: Place, depth: int) -> Deep[Node]:
        if depth > MAX_DEPTH:
            _refuse(place, f"Types nest deeper than {MAX_DEPTH} levels.", "depth")
        if isinstance(content, str):
            return done(self._name(content, namespace, place))
        if isinstance(content, list):
            return self._union(content, namespace, place, depth)
        if not isinstance(content, dict):
            _refuse(
                place, f"{_shown(content)} is not a type.", "type", "A type is a name, a list or an object."
            )
        if "type" not in content:
            _refuse(place, 'An object that describes a type needs "type".', "type")
        match content["type"]:
            case "record" | "error":
                return self._record(content, namespace, place, depth)
            case "enum":
                return done(self._enum(content, namespace, place))
            case "fixed":
                return done(self._fixed(content, namespace, place))
            case "array":
                return self._array(content, namespace, place, depth)
            case "map":
                return self._map(content, namespace, place, depth)
            case str(kind) if kind in PRIMITIVES:
                return done(Primitive(kind, place, logical_of(content, kind), _others(content)))
            case inner:
                return self.node(inner, namespace, place / "type", depth + 1)

    def _array(self, content: dict[str, Any], namespace: str, place: Place, depth: int) -> Deep[Node]:
        items = yield self._inner("items", content, namespace, place, depth)
        return Array(place, items, _others(content, "items"))

    def _map(self, content: dict[str, Any], namespace: str, place: Place, depth: int) -> Deep[Node]:
        values = yield self._inner("values", content, namespace, place, depth)
        return Map(place, values, _others(content, "values"))

    def _inner(
        self, key: str, content: dict[str, Any], namespace: str, place: Place, depth: int
    ) -> Deep[Node]:
        if key not in content:
            _refuse(place, f'{_article(content.get("type"))} needs "{key}".', "type")
        return self.node(content[key], namespace, place / key, depth + 1)

    def _name(self, name: str, namespace: str, place: Place) -> Node:
        if name in PRIMITIVES:
            return Primitive(name, place)
        if not all(_NAME.match(part) for part in name.split(".")):
            _refuse(place, f"{_shown(name)} is neither a type nor a name.", "name")
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        # A name without a dot may also mean a type in no namespace, if its own has none.
        for candidate in (full, name):
            found = self.defined.get(candidate) or self.known.get(candidate)
            if found is not None:
                return found
        _refuse(
            place,
            f"Nothing is called {full}.",
            "unknown-name",
            "Define it before its first use, or give the schema that defines it as a reference.",
        )

    def _union(self, content: list[Any], namespace: str, place: Place, depth: int) -> Deep[Union]:
        branches: list[Node] = []
        seen: set[str] = set()
        for index, item in enumerate(content):
            branch = yield self.node(item, namespace, place / index, depth + 1)
            if isinstance(branch, Union):
                _refuse(place / index, "A union cannot contain a union directly.", "union")
            if label(branch) in seen:
                _refuse(place / index, f"The union has two branches of type {label(branch)}.", "union")
            seen.add(label(branch))
            branches.append(branch)
        if not branches:
            _refuse(place, "A union needs at least one branch.", "union")
        return Union(place, tuple(branches))

    def _record(self, content: dict[str, Any], namespace: str, place: Place, depth: int) -> Deep[Record]:
        name, inner, aliases = self._names(content, namespace, place)
        properties = _others(content, "name", "namespace", "aliases", "fields")
        record = Record(name, place, (), aliases, properties, content["type"])
        self._define(record, place)
        listed = content.get("fields")
        if not isinstance(listed, list):
            _refuse(place, 'A record needs "fields", a list.', "fields")
        fields: dict[str, Field] = {}
        for index, item in enumerate(listed):
            field = yield self._field(item, inner, place / "fields" / index, depth)
            if field.name in fields:
                _refuse(field.place, f"Two fields of {name} are called {field.name}.", "duplicate-field")
            fields[field.name] = field
        record.fields = tuple(fields.values())
        return record

    def _field(self, content: Any, namespace: str, place: Place, depth: int) -> Deep[Field]:
        if not isinstance(content, dict):
            _refuse(place, f"{_shown(content)} is not a field.", "field")
        name = content.get("name")
        if not isinstance(name, str) or not _NAME.match(name):
            _refuse(place / "name", f"{_shown(name)} is not a field's name.", "name", _NAME_RULE)
        aliases = _strings(content, "aliases", place)
        for index, alias in enumerate(aliases):
            if not _NAME.match(alias):
                _refuse(
                    place / "aliases" / index, f"{_shown(alias)} is not a field's name.", "name", _NAME_RULE
                )
        if content.get("order", "ascending") not in _ORDERS:
            _refuse(place / "order", f"An order is one of {', '.join(_ORDERS)}.", "order")
        type = yield self._inner("type", content, namespace, place, depth)
        field = Field(
            name,
            place,
            type,
            content.get("default", MISSING),
            aliases,
            _others(content, "name", "aliases", "default"),
        )
        if field.default is not MISSING:
            self.fields.append(field)
        return field

    def _enum(self, content: dict[str, Any], namespace: str, place: Place) -> Enum:
        name, _, aliases = self._names(content, namespace, place)
        symbols = _strings(content, "symbols", place)
        if not symbols:
            _refuse(place, f"The enum {name} has no symbols.", "enum")
        seen: set[str] = set()
        for index, symbol in enumerate(symbols):
            if not _NAME.match(symbol):
                _refuse(place / "symbols" / index, f"{_shown(symbol)} is not a symbol.", "name", _NAME_RULE)
            if symbol in seen:
                _refuse(place / "symbols" / index, f"The symbol {symbol} is there twice.", "enum")
            seen.add(symbol)
        default = content.get("default")
        if "default" in content and default not in symbols:
            _refuse(place / "default", f"The default {_shown(default)} is not among the symbols.", "default")
        properties = _others(content, "name", "namespace", "aliases", "symbols", "default")
        enum = Enum(name, place, symbols, default, aliases, properties)
        self._define(enum, place)
        return enum

    def _fixed(self, content: dict[str, Any], namespace: str, place: Place) -> Fixed:
        name, _, aliases = self._names(content, namespace, place)
        size = content.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 < size < 2**31:
            _refuse(
                place / "size", f"{_shown(size)} is not a size.", "fixed", "A fixed has one byte or more."
            )
        properties = _others(content, "name", "namespace", "aliases", "size")
        fixed = Fixed(name, place, size, aliases, logical_of(content, "fixed", size), properties)
        self._define(fixed, place)
        return fixed

    def _names(
        self, content: dict[str, Any], namespace: str, place: Place
    ) -> tuple[str, str, tuple[str, ...]]:
        """The full name, the namespace of what is inside, and the aliases in full."""
        name = content.get("name")
        given = content.get("namespace", namespace)
        if not isinstance(name, str) or not all(_NAME.match(part) for part in name.split(".")):
            _refuse(place / "name", f"{_shown(name)} is not a name.", "name", _NAME_RULE)
        if not isinstance(given, str) or (given and not all(_NAME.match(part) for part in given.split("."))):
            _refuse(place / "namespace", f"{_shown(given)} is not a namespace.", "name", _NAME_RULE)
        if name in PRIMITIVES:
            _refuse(place / "name", f"{name} is the name of a type already.", "name")
        inner = name.rpartition(".")[0] if "." in name else given
        full = name if "." in name or not given else f"{given}.{name}"
        aliases = _strings(content, "aliases", place)
        for index, alias in enumerate(aliases):
            if not all(_NAME.match(part) for part in alias.split(".")):
                _refuse(place / "aliases" / index, f"{_shown(alias)} is not a name.", "name", _NAME_RULE)
        qualified = (alias if "." in alias or not inner else f"{inner}.{alias}" for alias in aliases)
        return full, inner, tuple(qualified)

    def _define(self, node: Named, place: Place) -> None:
        if node.name in self.defined or node.name in self.known:
            _refuse(place, f"{node.name} is defined twice.", "duplicate-name")
        self.defined[node.name] = node

    def check_defaults(self) -> None:
        """Afterwards, since a default may be of a type that was not complete when it was read."""
        budget = Budget(MAX_DEFAULTS)
        for field in self.fields:
            at = field.place / "default"
            try:
                fault = run(fault_in_default(field.type, field.default, at), budget)
            except Spent:
                fault = at, "it is too large, or contains itself."
            if fault is not None:
                place, what = fault
                _refuse(place, f"The default of {field.name} does not fit its type: {what}", "default")


_NAME_RULE = "Names have letters, digits and underscores, and start with no digit."


def _others(content: Mapping[str, Any], *taken: str) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != "type" and key not in taken}


def _strings(content: Mapping[str, Any], key: str, place: Place) -> tuple[str, ...]:
    listed = content.get(key, [])
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        _refuse(place / key, f'"{key}" is a list of strings.', key)
    return tuple(listed)


def _shown(content: Any) -> str:
    text = repr(content) if not isinstance(content, dict | list) else type(content).__name__
    return text if len(text) <= 60 else text[:57] + "..."


def _article(kind: object) -> str:
    return {"array": "An array", "map": "A map"}.get(str(kind), "A field")
