"""Which of the reader's types takes which of the writer's."""

from __future__ import annotations

from typing import Any, Protocol

from dragoman.pipeline.arrow.avro.tree import Array


class Match(Protocol):
    """One place in a writer's and a reader's schema, and which of the two's types meet there.

    The Avro format answers for two schemas (its ``Resolution``), so that columns are resolved as its codecs
    resolve. ``Alike`` answers for one schema.
    """

    def fields(self) -> dict[str, str]:
        """From the name of a reader's field to the name of the writer's field that it takes."""

    def field(self, name: str) -> Match: ...

    def items(self) -> Match:
        """At the items of an array, or the values of a map."""

    def written(self, branch: int) -> Match:
        """Where the writer has chosen a branch of its union."""

    def taken(self, branch: int) -> Match:
        """At a branch of the reader's union."""

    def branch(self) -> int | None:
        """The branch of the reader's union that takes the writer's type, ``None`` if no branch does."""


class Alike:
    """A writer that has the reader's own schema: every type meets itself."""

    def __init__(self, target: Any, chosen: int | None = None) -> None:
        self._target = target
        self._chosen = chosen

    def fields(self) -> dict[str, str]:
        return {each.name: each.name for each in self._target.fields}

    def field(self, name: str) -> Match:
        return Alike(next(each.node for each in self._target.fields if each.name == name))

    def items(self) -> Alike:
        return Alike(self._target.items if isinstance(self._target, Array) else self._target.values)

    def written(self, branch: int) -> Alike:
        return Alike(self._target, branch)

    def taken(self, branch: int) -> Alike:
        return Alike(self._target.branches[branch])

    def branch(self) -> int | None:
        return self._chosen


class Wrapped(Alike):
    """Roots that are no records: both trees have them as the one field of a record."""

    def __init__(self, target: Any, root: Match) -> None:
        super().__init__(target)
        self._root = root

    def field(self, name: str) -> Match:
        return self._root
