"""JSON text of values kept whole to their bytes: the way back from ``opaque``.

The text does not say which branch of a union its value is from. So every branch is tried, and a text that is
the form of values in several branches is refused: writing any of them could change the value. Bytes come from
the format's codec, which also says whether a text is exactly the form of what was written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from dragoman.core.errors import MessageError
from dragoman.pipeline.arrow.avro import write
from dragoman.pipeline.arrow.avro.target import standalone
from dragoman.pipeline.arrow.avro.tree import (
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    parse,
)
from dragoman.pipeline.arrow.codec_rows import UNFIT, codec_of
from dragoman.pipeline.arrow.port import SchemaText
from dragoman.pipeline.arrow.rejection import Malformed, Reason
from dragoman.pipeline.arrow.variant import from_plain, to_json

_LIKE = ({"int", "long"}, {"float", "double"})
"""Kinds of which a number is the same value in each."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a type makes of a JSON value.

    ``exact``: a reader gets back just this JSON. ``clear``: no union had several branches to choose from.
    """

    data: bytes
    exact: bool = True
    clear: bool = True


Known = dict[tuple[int, int], Taken | None]
"""Of one text what is known, by type and value: branches that share a type would try it again and again."""
Take = Callable[[Any, Known], Taken | None]
"""``None`` if the JSON value is not one of the type. Raises ``RecursionError`` if it is nested too deeply."""


class OpaqueWriter:
    """From JSON text to bytes, for a schema that stands by itself."""

    def __init__(self, schema: str, path: str) -> None:
        self._path = path
        self._tree = parse(schema)
        self._takes: dict[int, Take] = {}
        self._root = self._take(self._tree.unwrapped)

    def write(self, text: str | None) -> bytes:
        """``None`` stands for null. Raises ``Malformed`` for text that is no value, or could be several."""
        try:
            found = self._root(None if text is None else json.loads(text), {})
        except UNFIT:
            found = None
        if found is None:
            raise Malformed(Reason.ENCODE_TYPE, "The JSON text does not fit the type.", self._path)
        if not found.clear:
            reason = "The JSON text fits more than one branch of a union."
            raise Malformed(Reason.ENCODE_UNION, reason, self._path)
        return found.data

    def _take(self, node: Node) -> Take:
        node = self._tree.follow(node)
        if id(node) not in self._takes:
            made: list[Take] = []

            def take(value: Any, known: Known) -> Taken | None:
                place = (id(node), id(value))
                if place not in known:
                    known[place] = made[0](value, known)
                return known[place]

            # A type may contain itself, so its place is taken before its parts are made.
            self._takes[id(node)] = take
            made.append(self._made(node))
        return self._takes[id(node)]

    def _made(self, node: Node) -> Take:
        match node:
            case Record():
                return self._record(node)
            case Array():
                return self._array(node)
            case Map():
                return self._map(node)
            case Union():
                return self._union(node)
            case Primitive() | Fixed() | Enum():
                return self._leaf(node)
            case _:
                raise AssertionError(node)

    def _leaf(self, node: Primitive | Fixed | Enum) -> Take:
        codec = codec_of(SchemaText("AVRO", standalone(self._tree, node)), None)
        logical = None if isinstance(node, Enum) else node.logical

        def take(plain: Any, known: Known) -> Taken | None:
            try:
                data = codec.encode(from_plain(plain, node.kind, logical))
                return Taken(data, to_json(codec.decode(data)) == to_json(plain))
            except RecursionError:
                raise
            except MessageError as error:
                if isinstance(error.__context__, RecursionError):  # the stack was at its end, not the type
                    raise error.__context__ from None
                return None
            except UNFIT:
                return None

        return take

    def _record(self, node: Record) -> Take:
        fields = {each.name: self._take(each.node) for each in node.fields}

        def take(value: Any, known: Known) -> Taken | None:
            if not isinstance(value, dict) or value.keys() != fields.keys():
                return None
            parts = _all(fields.values(), [value[name] for name in fields], known)
            return None if parts is None else _together(parts, b"".join(each.data for each in parts))

        return take

    def _array(self, node: Array) -> Take:
        items, form = self._take(node.items), write.array_writer(write.write_raw)

        def take(value: Any, known: Known) -> Taken | None:
            parts = _all(repeat(items), value, known) if isinstance(value, list) else None
            return None if parts is None else _together(parts, _written(form, [each.data for each in parts]))

        return take

    def _map(self, node: Map) -> Take:
        values, form = self._take(node.values), write.map_writer(write.write_raw)

        def take(value: Any, known: Known) -> Taken | None:
            parts = _all(repeat(values), value.values(), known) if isinstance(value, dict) else None
            if parts is None:
                return None
            cells = [(key.encode(), each.data) for key, each in zip(value, parts, strict=True)]
            return _together(parts, _written(form, cells))

        return take

    def _union(self, node: Union) -> Take:
        branches = [(self._take(each), _written(write.write_long, i)) for i, each in enumerate(node.branches)]
        kinds = [_number_kind(each) for each in node.branches]

        def take(value: Any, known: Known) -> Taken | None:
            found: list[tuple[int, Taken]] = []
            for index, (branch, _) in enumerate(branches):
                taken = branch(value, known)
                if taken is not None:
                    found.append((index, taken))
            found = [each for each in found if each[1].exact] or found
            if not found:
                return None
            index, first = found[0]
            alike = len(found) == 1 or any({kinds[i] for i, _ in found} <= like for like in _LIKE)
            return Taken(branches[index][1] + first.data, first.exact, first.clear and alike)

        return take


def _all(takes: Iterable[Take], values: Iterable[Any], known: Known) -> list[Taken] | None:
    """All parts, ``None`` if there is one that does not fit."""
    parts: list[Taken] = []
    for take, value in zip(takes, values, strict=False):
        part = take(value, known)
        if part is None:
            return None
        parts.append(part)
    return parts


def _together(parts: list[Taken], data: bytes) -> Taken:
    return Taken(data, all(each.exact for each in parts), all(each.clear for each in parts))


def _written(form: Callable[[Any, bytearray], None], value: Any) -> bytes:
    out = bytearray()
    form(value, out)
    return bytes(out)


def _number_kind(node: Node) -> str:
    """The kind of a plain number, empty for other types."""
    return node.kind if isinstance(node, Primitive) and node.logical is None else ""
