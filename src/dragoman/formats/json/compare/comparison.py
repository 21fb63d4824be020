"""The comparison of two schemas as a greatest fixpoint.

Every pair of nodes fits until something speaks against it. When a pair is refuted, those that relied on
it are judged again, until nothing changes. So recursive schemas end, and no pair is judged on a guess
that later proves wrong. Nothing recurses, so that depth costs no stack.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from dragoman.core.format import Policy
from dragoman.formats.json.compare import combined, scalars
from dragoman.formats.json.compare.arrays import arrays
from dragoman.formats.json.compare.judge import Difference, Judge, Pair, Side, Step
from dragoman.formats.json.compare.objects import objects
from dragoman.formats.json.compare.rules import allowed
from dragoman.formats.json.compare.same import Sameness
from dragoman.formats.json.link import Place
from dragoman.formats.json.model import Model
from dragoman.formats.json.node import (
    Anything,
    Array,
    Combined,
    Conditional,
    Node,
    Not,
    Nothing,
    Number,
    Object,
    String,
    Typed,
    Values,
)

MAX_JUDGEMENTS = 20_000
MAX_REASONS = 100


class Reason(NamedTuple):
    """A difference that counts, the pair it is about, and the way to it through the data."""

    difference: Difference
    pair: Pair
    path: tuple[tuple[Node, Step], ...]
    """From the root: each of the writer's nodes, and the step that leaves it."""


def compare(reader: Model, writer: Model, policy: Policy) -> list[Reason]:
    """Why the reader does not take all that the writer allows; empty if it does."""
    return _Comparison(policy).reasons(Pair(Side(reader, reader.root), Side(writer, writer.root)))


class _Comparison:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._judged: dict[Pair, Judge] = {}
        self._refuted: set[Pair] = set()
        self._dependents: dict[Pair, set[Pair]] = {}
        self._judgements = 0
        self._sameness = Sameness()

    def reasons(self, root: Pair) -> list[Reason]:
        if not self._settle(root):
            place = Place(0, "")
            message = "The schemas have too many alternatives to be compared."
            return [Reason(Difference("COMPARISON_TOO_LARGE", message, place, place), root, ())]
        return list(self._explain(root))

    def _settle(self, root: Pair) -> bool:
        fresh, stale = [root], set[Pair]()
        while fresh or stale:
            known = self._refuted if not fresh else self._judged
            pair = fresh.pop() if fresh else stale.pop()
            if pair in known:
                continue
            if self._judgements > MAX_JUDGEMENTS:
                return False
            judge = self._judge(pair)
            for child in [*judge.asked, *(child for child, _ in judge.needed)]:
                self._dependents.setdefault(child, set()).add(pair)
                if child not in self._judged:
                    fresh.append(child)
            if self._fails(judge):
                self._refuted.add(pair)
                stale |= self._dependents.get(pair, set())
        return True

    def _fails(self, judge: Judge) -> bool:
        return any(not allowed(each.rule, self._policy) for each in judge.differences) or any(
            child in self._refuted for child, _ in judge.needed
        )

    def _judge(self, pair: Pair) -> Judge:
        self._judgements += 1
        judge = Judge(pair, self._policy, lambda asked: asked not in self._refuted)
        if not self._sameness.same(pair.reader, pair.writer):
            _nodes(judge, pair.reader.node, pair.writer.node)
        self._judgements += (len(judge.asked) + len(judge.needed) + len(judge.differences)) // 8
        self._judged[pair] = judge
        return judge

    def _explain(self, root: Pair) -> Iterator[Reason]:
        """The differences that count, nearest to the root first."""
        for reason in itertools.islice(self._counting(root), MAX_REASONS):
            yield reason._replace(difference=self._detailed(reason.difference, self._judged[reason.pair]))

    def _counting(self, root: Pair) -> Iterator[Reason]:
        seen = {root}
        pending: list[tuple[Pair, tuple[tuple[Node, Step], ...]]] = [(root, ())]
        for pair, path in pending:
            judge = self._judged[pair]
            for difference in judge.differences:
                if not allowed(difference.rule, self._policy):
                    yield Reason(difference, pair, path)
            for child, step in judge.needed:
                if child in self._refuted and child not in seen:
                    seen.add(child)
                    pending.append((child, (*path, (pair.writer.node, step))))

    def _detailed(self, difference: Difference, judge: Judge) -> Difference:
        """For branches that do not fit, what speaks against the ones that are most alike."""
        if difference.rule != "COMBINED_TYPE_SUBSCHEMAS_CHANGED":
            return difference
        for pair in judge.asked:
            if type(pair.reader.node) is type(pair.writer.node) and pair in self._refuted:
                found = next(self._counting(pair)).difference
                return difference._replace(message=f"{difference.message} {found.rule}: {found.message}")
        return difference


def _nodes(judge: Judge, reader: Node, writer: Node) -> None:
    if isinstance(reader, Anything) or isinstance(writer, Nothing):
        return
    if isinstance(reader, Combined) and isinstance(writer, Combined):
        combined.combined(judge, reader, writer)
    elif isinstance(reader, Combined):
        combined.to_combined(judge, reader, writer)
    elif isinstance(writer, Combined):
        combined.from_combined(judge, reader, writer)
    elif type(reader) is not type(writer):
        judge.differ(
            "TYPE_CHANGED", f"The writer writes {_kind(writer)}, the reader expects {_kind(reader)}."
        )
    else:
        _alike(judge, reader, writer)


def _alike(judge: Judge, reader: Node, writer: Node) -> None:
    if isinstance(reader, Typed) and isinstance(writer, Typed) and reader.demanded and not writer.demanded:
        judge.differ(
            "IMPLIED_TYPE_DEMANDED",
            f"The writer may write other types too, the reader takes {_kind(reader)} only.",
        )
    match reader, writer:
        case Object(), Object():
            objects(judge, reader, writer)
        case Array(), Array():
            arrays(judge, reader, writer)
        case String(), String():
            scalars.strings(judge, reader, writer)
        case Number(), Number():
            scalars.numbers(judge, reader, writer)
        case Values(), Values():
            scalars.values(judge, reader, writer)
        case Not(), Not():
            combined.negated(judge, reader, writer)
        case Conditional(), Conditional():
            combined.conditional(judge, reader, writer)


_KINDS = {
    "Anything": "anything",
    "Nothing": "nothing",
    "Null": "null",
    "Boolean": "a boolean",
    "Values": "one of some values",
    "String": "a string",
    "Number": "a number",
    "Array": "an array",
    "Object": "an object",
    "Not": "what something else is not",
    "Conditional": "what a condition asks for",
}


def _kind(node: Node) -> str:
    return _KINDS[type(node).__name__]
