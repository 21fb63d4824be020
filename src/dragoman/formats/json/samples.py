"""Small values that a schema allows, or nearly: the stuff of counter-examples."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from dragoman.formats.json.link import Place
from dragoman.formats.json.model import Model
from dragoman.formats.json.node import (
    Anything,
    Array,
    Boolean,
    Combined,
    Criterion,
    Node,
    Nothing,
    Null,
    Number,
    Object,
    String,
    Values,
)
from dragoman.formats.json.validator import matches

Near = Sequence[Node]
_DEPTH = 8
_MOST = 24
WILD: tuple[Any, ...] = (None, "", "a", 0, 1, -1, 0.5, True, False, [], [None], {}, {"a": None}, 10**6)
_FORMATS = {
    "date-time": "2020-01-02T03:04:05Z",
    "date": "2020-01-02",
    "time": "03:04:05Z",
    "email": "a@example.com",
    "hostname": "example.com",
    "ipv4": "10.0.0.1",
    "ipv6": "::1",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


class Sampler:
    """Values of one model's nodes. ``near`` are nodes of the other schema whose limits are worth trying."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._plainest: dict[Node, Any] = {}

    def samples(self, node: Node, near: Near = (), depth: int = 0) -> list[Any]:
        """At most a few dozen, the plainest first."""
        return _distinct(itertools.islice(self._of(node, near, depth), _MOST * 2))[:_MOST]

    def one(self, child: Node | Place, depth: int = 0) -> Any:
        """The plainest. Raises ``LookupError`` if none is found."""
        node = self._model.at(child)
        if node not in self._plainest:
            found = next(iter(self._of(node, (), depth)), _NONE)
            if found is _NONE:
                raise LookupError(child)
            self._plainest[node] = found
        return self._plainest[node]

    def _of(self, node: Node, near: Near, depth: int) -> Iterable[Any]:
        if depth > _DEPTH:
            return ()
        match node:
            case Nothing():
                return ()
            case Null():
                return (None,)
            case Boolean():
                return (True, False)
            case Values():
                return node.values
            case String():
                return _strings(node, near)
            case Number():
                return _numbers(node, near)
            case Array():
                return self._arrays(node, near, depth)
            case Object():
                return self._objects(node, depth)
            case Combined():
                return self._branches(node, near, depth)
            case Anything() | _:
                return WILD

    def _branches(self, node: Combined, near: Near, depth: int) -> Iterator[Any]:
        branches = [self._model.at(branch) for branch in node.branches]
        inner = [self.samples(branch, near, depth + 1) for branch in branches]
        if node.criterion is Criterion.ALL:
            objects = [[each for each in values if isinstance(each, dict)] for values in inner]
            merged: dict[str, Any] = {}
            for values in objects:
                merged |= values[0] if values else {}
            if merged:
                yield merged
        for round_ in itertools.zip_longest(*inner, fillvalue=_NONE):
            yield from (each for each in round_ if each is not _NONE)

    def _arrays(self, node: Array, near: Near, depth: int) -> Iterator[Any]:
        sizes = [node.min_items, node.max_items]
        for other in near:
            if isinstance(other, Array):
                sizes += [other.min_items, other.max_items]
        for size in _sizes(sizes):
            try:
                yield [self.item(node, index, depth) for index in range(size)]
            except LookupError:
                continue
        if node.rest is not None:
            values = self.samples(self._model.at(node.rest.place), (), depth + 1)
            yield values
            yield values[:1] * 2
        elif not node.prefix:
            yield [None, None]

    def item(self, node: Array, index: int, depth: int = 0) -> Any:
        if index < len(node.prefix):
            return self.one(node.prefix[index], depth + 1)
        if node.rest is None:
            return index
        found = self.samples(self._model.at(node.rest.place), (), depth + 1)
        if not found:
            raise LookupError(index)
        return found[index % len(found)]

    def _objects(self, node: Object, depth: int) -> Iterator[Any]:
        try:
            least = {name: self._property(node, name, depth) for name in sorted(node.required)}
        except LookupError:
            return
        yield least
        full, found = dict(least), []
        for name, place in node.properties.items():
            with contextlib.suppress(LookupError):
                full.setdefault(name, self.one(place, depth + 1))
                found.append({**least, name: full[name]})
        yield from found
        yield full
        with contextlib.suppress(LookupError):
            full = {**least, "another": self._property(node, "another", depth)}
        yield full

    def _property(self, node: Object, name: str, depth: int) -> Any:
        place = node.properties.get(name) or next(
            (inner for pattern, inner in node.patterns.items() if matches(pattern, name)), None
        )
        if place is None and node.rest is not None:
            place = node.rest.place
        return None if place is None else self.one(place, depth + 1)


_NONE = object()


def _strings(node: String, near: Near) -> Iterator[str]:
    if node.format in _FORMATS:
        yield _FORMATS[node.format]
    sizes = [node.min_length, node.max_length]
    for other in near:
        if isinstance(other, String):
            sizes += [other.min_length, other.max_length]
    alphabet = ["a", "0", "A", " ", "é"]
    texts = [letter * size for size in _sizes(sizes) for letter in alphabet]
    if node.pattern is not None:
        bare = node.pattern.removeprefix("^").removesuffix("$")
        texts = [bare, *texts, "ab", "a1", "0a", "AB", "12", "a-b"]
        texts = [each for each in texts if matches(node.pattern, each)]
    yield from (each for each in texts if _within(len(each), node.min_length, node.max_length))


def _numbers(node: Number, near: Near) -> Iterator[int | float]:
    limits = [node.minimum, node.maximum, node.exclusive_minimum, node.exclusive_maximum]
    multiple = node.multiple_of
    for other in near:
        if isinstance(other, Number):
            limits += [other.minimum, other.maximum, other.exclusive_minimum, other.exclusive_maximum]
    known = [Fraction(0), Fraction(1), *(each for each in limits if each is not None)]
    steps = [Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-1, 2), Fraction(1, 10)]
    found = [base + step for base in known for step in steps]
    if multiple is not None:
        found = [(each // multiple) * multiple for each in found] + [multiple * 2, multiple * 3]
    for value in found:
        if node.integer and value.denominator != 1:
            continue
        if _within(value, node.minimum, node.maximum):
            yield value.numerator if value.denominator == 1 else float(value)


def _within(value: Fraction | int, least: Fraction | None, most: Fraction | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def _sizes(limits: Iterable[Fraction | None]) -> list[int]:
    """The limits, those next to them, and the least; none so large that it costs anything."""
    known = [int(each) for each in limits if each is not None]
    sizes = {0, 1, 2} | {each + step for each in known for step in (-1, 0, 1)}
    return sorted(size for size in sizes if 0 <= size <= 300)


def _distinct(values: Iterable[Any]) -> list[Any]:
    kept: dict[str, Any] = {}
    for each in values:
        kept.setdefault(repr(each), each)
    return list(kept.values())
