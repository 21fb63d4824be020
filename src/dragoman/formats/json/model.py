"""Builds nodes from a linked schema, on demand and once for each place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from dragoman.formats.json.document import compact, pointer
from dragoman.formats.json.draft import Draft, live_subschemas
from dragoman.formats.json.link import Linked, Place, place_of
from dragoman.formats.json.node import (
    Anything,
    Array,
    Boolean,
    Combined,
    Conditional,
    Contains,
    Criterion,
    Node,
    Not,
    Nothing,
    Null,
    Number,
    Object,
    Rest,
    String,
    Values,
)
from dragoman.formats.json.normal import ordered, undocumented

MISSING = object()
_STRING = ("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType")
_NUMBER = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_ARRAY = ("items", "additionalItems", "prefixItems", "minItems", "maxItems", "uniqueItems")
_ARRAY_SINCE_6 = ("contains",)
_OBJECT = ("properties", "patternProperties", "additionalProperties", "required", "dependencies")
_OBJECT_BOUNDS = ("minProperties", "maxProperties")
_MODERN_OBJECT = ("dependentRequired", "dependentSchemas", "unevaluatedProperties")
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "$ref", "dependentSchemas", "enum", "const")


class Model:
    """The nodes of one linked schema. ``exact`` keeps repeated branches of ``oneOf``."""

    def __init__(self, linked: Linked, exact: bool = False) -> None:
        self.linked = linked
        self._exact = exact
        self._nodes: dict[Place, Node] = {}
        self._building: set[Place] = set()
        self._canonical: dict[Place, tuple[str, tuple[Place, ...]]] = {}

    @property
    def root(self) -> Node:
        return self.at(Place(0, ""))

    def at(self, child: Place | Node) -> Node:
        """The node of a place. A reference that leads only to itself allows anything."""
        if isinstance(child, Node):
            return child
        known = self._nodes.get(child)
        if known is not None:
            return known
        if child in self._building:
            return Anything(place=child)
        self._building.add(child)
        try:
            node = self._build(child, self.linked.at(child))
        finally:
            self._building.discard(child)
        return self._nodes.setdefault(child, node)

    def whole(self, node: Node) -> bool:
        """Whether a node is all of the schema at its place, not one part of it."""
        return self.at(node.place) is node

    def canonical(self, place: Place) -> tuple[str, tuple[Place, ...]]:
        """A schema as ordered text without documentation, and where its references lead, in that order."""
        known = self._canonical.get(place)
        if known is None:
            schema = ordered(undocumented(self.linked.at(place)))
            known = self._canonical[place] = (compact(schema), tuple(_references(schema, self.draft(place))))
        return known

    def draft(self, place: Place) -> Draft:
        return self.linked.drafts[place.document]

    def default(self, place: Place) -> Any:
        """The default that a schema declares, itself or through its reference, else ``MISSING``."""
        seen: set[Place] = set()
        while place not in seen:
            seen.add(place)
            schema = self.linked.at(place)
            if not isinstance(schema, dict):
                break
            if "default" in schema and ("$ref" not in schema or self.draft(place).modern):
                return schema["default"]
            if "$ref" not in schema:
                break
            place = place_of(schema["$ref"])
        return MISSING

    def _build(self, place: Place, schema: Any) -> Node:
        if schema is True or schema == {}:
            return Anything(place=place)
        if schema is False:
            return Nothing(place=place)
        if "$ref" in schema and not self.draft(place).modern:
            return self.at(place_of(schema["$ref"]))
        parts = _Parts(place, schema, self.draft(place))
        return self._combined(place, Criterion.ALL, [*self._composed(place, schema), *parts.nodes()])

    def _composed(self, place: Place, schema: dict[str, Any]) -> Iterable[Node | Place]:
        """The parts that are made of other schemas."""
        draft = self.draft(place)
        if "$ref" in schema:
            yield place_of(schema["$ref"])
        for criterion in Criterion:
            if criterion.value in schema:
                branches = schema[criterion.value]
                places: list[Node | Place] = [
                    _under(place, criterion.value, index) for index in range(len(branches))
                ]
                yield self._combined(place, criterion, places)
        if "not" in schema:
            yield Not(place=place, inner=_under(place, "not"))
        conditional = draft not in (Draft.DRAFT4, Draft.DRAFT6) and "if" in schema
        if conditional and ("then" in schema or "else" in schema):
            yield Conditional(
                place=place,
                condition=_under(place, "if"),
                then=_under(place, "then") if "then" in schema else None,
                otherwise=_under(place, "else") if "else" in schema else None,
            )

    def _combined(self, place: Place, criterion: Criterion, parts: list[Node | Place]) -> Node:
        """One part stands for itself; equal parts count once."""
        distinct = parts if criterion is Criterion.ONE and self._exact else self._distinct(parts)
        if not distinct:
            return Anything(place=place)
        if len(distinct) == 1:
            return self.at(distinct[0])
        return Combined(place=place, criterion=criterion, branches=tuple(distinct))

    def _distinct(self, parts: list[Node | Place]) -> list[Node | Place]:
        kept: dict[object, Node | Place] = {}
        for part in parts:
            key: object = part
            if isinstance(part, Place):
                key = self.canonical(part)
            kept.setdefault(key, part)
        return list(kept.values())


class _Parts:
    """The parts of one schema object that are not made of other schemas in the same place."""

    def __init__(self, place: Place, schema: dict[str, Any], draft: Draft) -> None:
        self._place = place
        self._schema = schema
        self._draft = draft

    def nodes(self) -> list[Node]:
        return [*self._types(), *self._values()]

    def _types(self) -> list[Node]:
        types = self._schema.get("type")
        if isinstance(types, str):
            types = [types]
        if types is None:
            return [self._typed(each, demanded=False) for each in self._implied()]
        nodes = [self._typed(each) for each in dict.fromkeys(types)]
        if len(nodes) == 1:
            return nodes
        return [Combined(place=self._place, criterion=Criterion.ANY, branches=tuple(nodes))]

    def _values(self) -> list[Node]:
        nodes: list[Node] = []
        if "enum" in self._schema:
            nodes.append(Values(place=self._place, values=tuple(self._schema["enum"])))
        if "const" in self._schema and self._draft is not Draft.DRAFT4:
            nodes.append(Values(place=self._place, values=(self._schema["const"],)))
        return nodes

    def _implied(self) -> list[str]:
        modern, since_6 = self._draft.modern, self._draft is not Draft.DRAFT4
        arrays = _ARRAY + (_ARRAY_SINCE_6 if since_6 else ()) + (("unevaluatedItems",) if modern else ())
        objects = (
            _OBJECT
            + _OBJECT_BOUNDS
            + (("propertyNames",) if since_6 else ())
            + (_MODERN_OBJECT if modern else ())
        )
        kinds = {"string": _STRING, "number": _NUMBER, "array": arrays, "object": objects}
        return [kind for kind, keywords in kinds.items() if any(each in self._schema for each in keywords)]

    def _typed(self, kind: str, demanded: bool = True) -> Node:
        match kind:
            case "string":
                return self._string(demanded)
            case "integer" | "number":
                return self._number(kind == "integer", demanded)
            case "array":
                return self._array(demanded)
            case "object":
                return self._object(demanded)
            case "boolean":
                return Boolean(place=self._place)
            case _:
                return Null(place=self._place)

    def _string(self, demanded: bool) -> String:
        schema = self._schema
        return String(
            place=self._place,
            demanded=demanded,
            min_length=self._bound("minLength"),
            max_length=self._bound("maxLength"),
            pattern=schema.get("pattern"),
            format=schema.get("format"),
            encoding=(schema.get("contentEncoding"), schema.get("contentMediaType")),
            asserts=(not self._draft.modern, self._draft in (Draft.DRAFT6, Draft.DRAFT7)),
        )

    def _number(self, integer: bool, demanded: bool) -> Number:
        minimum, exclusive_minimum = self._limits("minimum", "exclusiveMinimum")
        maximum, exclusive_maximum = self._limits("maximum", "exclusiveMaximum")
        return Number(
            place=self._place,
            demanded=demanded,
            integer=integer,
            whole=self._draft is not Draft.DRAFT4,
            minimum=minimum,
            maximum=maximum,
            exclusive_minimum=exclusive_minimum,
            exclusive_maximum=exclusive_maximum,
            multiple_of=self._bound("multipleOf"),
        )

    def _limits(self, inclusive: str, exclusive: str) -> tuple[Fraction | None, Fraction | None]:
        """In draft 4 the exclusive keyword is a flag of the other."""
        if self._draft is not Draft.DRAFT4:
            return self._bound(inclusive), self._bound(exclusive)
        limit = self._bound(inclusive)
        return (None, limit) if self._schema.get(exclusive) is True else (limit, None)

    def _array(self, demanded: bool) -> Array:
        schema, place = self._schema, self._place
        listed = "prefixItems" if self._draft is Draft.DRAFT2020 else "items"
        items = schema.get(listed)
        prefix = (
            tuple(_under(place, listed, index) for index in range(len(items)))
            if isinstance(items, list)
            else ()
        )
        keyword = "additionalItems" if isinstance(items, list) and listed == "items" else "items"
        return Array(
            place=place,
            demanded=demanded,
            prefix=prefix,
            rest=self._rest(keyword, "unevaluatedItems", (*_IN_PLACE, "contains")),
            tuple=isinstance(items, list),
            min_items=self._bound("minItems"),
            max_items=self._bound("maxItems"),
            unique=schema.get("uniqueItems") is True,
            contains=self._contains(),
        )

    def _contains(self) -> Contains | None:
        schema = self._schema
        if "contains" not in schema or self._draft is Draft.DRAFT4:
            return None
        modern = self._draft.modern
        most = schema.get("maxContains") if modern else None
        return Contains(
            place=_under(self._place, "contains"),
            min=int(schema.get("minContains", 1)) if modern else 1,
            max=None if most is None else int(most),
        )

    def _object(self, demanded: bool) -> Object:
        schema, place = self._schema, self._place
        return Object(
            place=place,
            demanded=demanded,
            properties={name: _under(place, "properties", name) for name in schema.get("properties", {})},
            patterns={
                name: _under(place, "patternProperties", name) for name in schema.get("patternProperties", {})
            },
            rest=self._rest("additionalProperties", "unevaluatedProperties", _IN_PLACE),
            required=frozenset(schema["required"])
            if isinstance(schema.get("required"), list)
            else frozenset(),
            min_properties=self._bound("minProperties"),
            max_properties=self._bound("maxProperties"),
            needs=self._needs(),
            implies=self._implies(),
            names=_under(place, "propertyNames")
            if "propertyNames" in schema and self._draft is not Draft.DRAFT4
            else None,
            entangled=any(each in schema for each in _IN_PLACE),
        )

    def _needs(self) -> dict[str, frozenset[str]]:
        needs: dict[str, frozenset[str]] = {}
        for keyword in ("dependencies", "dependentRequired") if self._draft.modern else ("dependencies",):
            for name, each in self._schema.get(keyword, {}).items():
                if isinstance(each, list):
                    needs[name] = needs.get(name, frozenset()) | frozenset(each)
        return needs

    def _implies(self) -> tuple[tuple[str, Place], ...]:
        return tuple(
            (name, _under(self._place, keyword, name))
            for keyword in (("dependencies", "dependentSchemas") if self._draft.modern else ("dependencies",))
            for name, each in self._schema.get(keyword, {}).items()
            if not isinstance(each, list)
        )

    def _rest(self, additional: str, unevaluated: str, others: tuple[str, ...]) -> Rest | None:
        if additional in self._schema:
            return Rest(place=_under(self._place, additional), keyword=additional)
        if self._draft.modern and unevaluated in self._schema:
            certain = not any(each in self._schema for each in others)
            return Rest(place=_under(self._place, unevaluated), keyword=unevaluated, certain=certain)
        return None

    def _bound(self, keyword: str) -> Fraction | None:
        """Exact, since ``0.3`` is three tenths here and not what a double makes of it."""
        value = self._schema.get(keyword)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return Fraction(str(value))


def _references(schema: Any, draft: Draft) -> Iterator[Place]:
    """Those of schemas alone: a ``const`` may look like a reference."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield place_of(schema["$ref"])
        for _, inner in live_subschemas(schema, draft):
            yield from _references(inner, draft)


def _under(place: Place, *path: object) -> Place:
    return Place(place.document, place.pointer + pointer(path))
