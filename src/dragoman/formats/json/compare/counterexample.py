"""A document that shows a difference: valid for the writer, unreadable for the reader. Always verified."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from dragoman.formats.json.compare.comparison import Reason
from dragoman.formats.json.compare.judge import Side, Step
from dragoman.formats.json.document import compact
from dragoman.formats.json.model import Model
from dragoman.formats.json.node import Array, Combined, Node, Object
from dragoman.formats.json.samples import WILD, Sampler

MAX_TRIED = 150
MAX_LENGTH = 2_000
MAX_PARTS = 30
MAX_DEPTH = 100


class CounterExamples:
    """``shows`` tells whether a document is valid for the writer and unreadable for the reader."""

    def __init__(self, writer: Model, shows: Callable[[Any], bool]) -> None:
        self._model = writer
        self._sampler = Sampler(writer)
        self._shows = shows

    def of(self, reason: Reason) -> str | None:
        """The shortest of the first documents that show it, as JSON."""
        best: str | None = None
        if len(reason.path) > MAX_DEPTH:
            return None
        with contextlib.suppress(LookupError):
            for inner in itertools.islice(self._inner(reason), MAX_TRIED):
                document = self._wrapped(inner, reason)
                text = compact(document)
                if len(text) < (MAX_LENGTH if best is None else len(best)) and self._shows(document):
                    best = text
        return best

    def _inner(self, reason: Reason) -> Iterator[Any]:
        """Values at the place of the difference."""
        writer = reason.pair.writer.node
        step = reason.difference.step
        values = self._sampler.samples(writer, parts(reason.pair.reader))
        yield from values
        if isinstance(step.key, str):
            yield from self._with_property(step.key, writer, values)
        elif isinstance(step.key, int):
            for value in (*self._of_item(step.key, writer), *WILD):
                yield self._array_with(writer, step, value)

    def _with_property(self, name: str, writer: Node, values: list[Any]) -> Iterator[Any]:
        objects = [each for each in values if isinstance(each, dict)] or [{}]
        for base in objects[:3]:
            yield {key: value for key, value in base.items() if key != name}
        place = writer.properties.get(name) if isinstance(writer, Object) else None
        known = self._sampler.samples(self._model.at(place)) if place else []
        for value in (*known, *WILD):
            yield {**objects[0], name: value}

    def _of_item(self, index: int, writer: Node) -> list[Any]:
        if not isinstance(writer, Array) or index >= len(writer.prefix):
            return []
        return self._sampler.samples(self._model.at(writer.prefix[index]))

    def _array_with(self, writer: Node, step: Step, value: Any) -> list[Any]:
        """An array with a value at an index, or behind the listed items."""
        if not isinstance(writer, Array):
            return [value]
        least = int(writer.min_items or 0)
        position = len(writer.prefix) if step.rest or not isinstance(step.key, int) else step.key
        size = min(max(position + 1, least), 300)
        return [value if each == position else self._sampler.item(writer, each) for each in range(size)]

    def _wrapped(self, value: Any, reason: Reason) -> Any:
        """The value put into a document, from the inside out."""
        for node, step in reversed(reason.path):
            if isinstance(step.key, str):
                base = self._sampler.one(node)
                name = self._unlisted(node) if step.rest else step.key
                value = {**(base if isinstance(base, dict) else {}), name: value}
            elif isinstance(step.key, int):
                value = self._array_with(node, step, value)
        return value

    def _unlisted(self, node: Node) -> str:
        return "another" if isinstance(node, Object) and "another" not in node.properties else "yet_another"


def parts(side: Side) -> list[Node]:
    """A node, and what it is combined of."""
    found: dict[Node, None] = {}
    pending = [side.node]
    while pending:
        node = pending.pop()
        if node not in found and len(found) < MAX_PARTS:
            found[node] = None
            if isinstance(node, Combined):
                pending += [side.model.at(branch) for branch in node.branches]
    return list(found)
