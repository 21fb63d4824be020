"""Which of the reader's types takes which of the writer's, for readers of Avro other than the codecs.

A ``Resolution`` stands at one place of both schemas. Its answers are those that the codecs are compiled
from, so a decoder that follows them reads what a codec reads.
"""

from __future__ import annotations

from functools import cached_property

from dragoman.formats.avro.compatibility import Checker, matched_fields
from dragoman.formats.avro.nodes import Array, Field, Map, Node, Record, Union


class Resolution:
    """One place in a writer's and a reader's schema. The types of both must fit each other."""

    def __init__(self, writer: Node, reader: Node, checker: Checker | None = None) -> None:
        self._writer = writer
        self._reader = reader
        self._checker = checker or Checker()

    @cached_property
    def _fields(self) -> dict[str, tuple[Field, Field]]:
        reader, writer = self._reader, self._writer
        assert isinstance(reader, Record) and isinstance(writer, Record)
        matched = matched_fields(reader, writer)
        return {each.name: (matched[each.name], each) for each in reader.fields if each.name in matched}

    def fields(self) -> dict[str, str]:
        """From the name of a reader's field to the name of the writer's field that it takes."""
        return {name: source.name for name, (source, _) in self._fields.items()}

    def field(self, name: str) -> Resolution:
        """At a field of the reader's that ``fields`` has."""
        source, target = self._fields[name]
        return self._at(source.type, target.type)

    def items(self) -> Resolution:
        """At the items of an array, or the values of a map."""
        return self._at(_inner(self._writer), _inner(self._reader))

    def written(self, branch: int) -> Resolution:
        """Where the writer has chosen a branch of its union."""
        assert isinstance(self._writer, Union)
        return self._at(self._writer.branches[branch], self._reader)

    def taken(self, branch: int) -> Resolution:
        """At a branch of the reader's union."""
        assert isinstance(self._reader, Union)
        return self._at(self._writer, self._reader.branches[branch])

    def branch(self) -> int | None:
        """The branch of the reader's union that takes the writer's type, ``None`` if no branch does."""
        assert isinstance(self._reader, Union)
        found = self._checker.branch_for(self._reader, self._writer)
        return next((i for i, each in enumerate(self._reader.branches) if each is found), None)

    def _at(self, writer: Node, reader: Node) -> Resolution:
        return Resolution(writer, reader, self._checker)


def _inner(node: Node) -> Node:
    assert isinstance(node, Array | Map)
    return node.items if isinstance(node, Array) else node.values
