"""What it costs to validate one value: a few lines of schema can ask for more steps than a day has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman.core.errors import InvalidSchema
from dragoman.formats.json.document import pointer
from dragoman.formats.json.draft import Draft, live_subschemas
from dragoman.formats.json.link import Linked, Place, place_of

MAX_CHAIN = 100
MAX_STEPS = 20_000
_IN_PLACE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependencies", "dependentSchemas"}
)


def check_cost(linked: Linked) -> None:
    """Raises ``InvalidSchema`` if the schemas that hold for one value are too many, or chained too deep."""
    counted = _Counted(linked)
    for number, document in enumerate(linked.documents):
        pending = [(Place(number, ""), document)]
        while pending:
            place, schema = pending.pop()
            if isinstance(schema, dict):
                counted.steps(place, 0)
                inside = live_subschemas(schema, linked.drafts[number])
                pending += [(_under(place, path), inner) for path, inner in inside]


class _Counted:
    """Counts each place once. A place that leads back to itself adds nothing."""

    def __init__(self, linked: Linked) -> None:
        self._linked = linked
        self._steps: dict[Place, int] = {}

    def steps(self, place: Place, depth: int) -> int:
        known = self._steps.get(place)
        if known is not None:
            return known
        if depth > MAX_CHAIN:
            raise InvalidSchema(
                f"More than {MAX_CHAIN} schemas refer to each other without a property or an item between.",
                code="schema.invalid.depth",
                next="Refer to the last one directly.",
                pointer=place.pointer or "/",
            )
        self._steps[place] = 0
        inside = _in_place(place, self._linked.at(place), self._linked.drafts[place.document])
        total = 1 + sum(self.steps(inner, depth + 1) for inner in inside)
        if total > MAX_STEPS:
            raise InvalidSchema(
                f"More than {MAX_STEPS} schemas hold for one value.",
                code="schema.invalid.cost",
                next="Combine fewer schemas.",
                pointer=place.pointer or "/",
            )
        self._steps[place] = total
        return total


def _in_place(place: Place, schema: Any, draft: Draft) -> Iterator[Place]:
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield place_of(schema["$ref"])
    for path, _ in live_subschemas(schema, draft):
        if path[0] in _IN_PLACE:
            yield _under(place, path)


def _under(place: Place, path: tuple[str | int, ...]) -> Place:
    return Place(place.document, place.pointer + pointer(path))
