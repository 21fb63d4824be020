"""Schemas made of alternatives or of parts, ``not``, and conditions."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.formats.json.compare.disjoint import disjoint
from dragoman.formats.json.compare.judge import IN_PLACE, Judge, Side
from dragoman.formats.json.compare.matching import largest_matching
from dragoman.formats.json.node import Combined, Conditional, Criterion, Node, Not


def combined(judge: Judge, reader: Combined, writer: Combined) -> None:
    new, old = reader.criterion, writer.criterion
    if new is not old:
        if new is not Criterion.ANY:
            judge.differ("COMBINED_TYPE_CHANGED", f"{old.value} became {new.value}.")
            return
        judge.differ("COMBINED_TYPE_EXTENDED", f"{old.value} became {new.value}.")
    _sizes(judge, reader, writer)
    smaller = min(len(reader.branches), len(writer.branches))
    if largest_matching(len(writer.branches), _candidates(judge, reader, writer)) < smaller:
        judge.differ(
            "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
            f"The branches of the writer's {old.value} do not each fit one of the reader's {new.value}.",
        )
    _check_overlap(judge, reader)


def _sizes(judge: Judge, reader: Combined, writer: Combined) -> None:
    new, old = len(reader.branches), len(writer.branches)
    if new == old:
        return
    if reader.criterion is Criterion.ALL:
        change, words = ("EXTENDED", "more") if new > old else ("NARROWED", "fewer")
        judge.differ(f"PRODUCT_TYPE_{change}", f"The reader's allOf has {words} branches.")
    elif writer.criterion is not Criterion.ALL:
        change, words = ("EXTENDED", "more") if new > old else ("NARROWED", "fewer")
        judge.differ(f"SUM_TYPE_{change}", f"The reader has {words} alternatives than the writer.")


def _candidates(judge: Judge, reader: Combined, writer: Combined) -> list[list[int]]:
    """For each branch of the writer, those of the reader that take all of it."""
    return [
        [index for index, new in enumerate(reader.branches) if judge.fits(new, old)]
        for old in writer.branches
    ]


def to_combined(judge: Judge, reader: Combined, writer: Node) -> None:
    """A single schema became a combination."""
    if reader.criterion is Criterion.ALL:
        judge.differ("PRODUCT_TYPE_EXTENDED", "The reader asks for several schemas at once.")
    elif any(judge.fits(branch, writer) for branch in reader.branches):
        judge.differ("SUM_TYPE_EXTENDED", "The reader takes it as one of several alternatives.")
        _check_overlap(judge, reader)
    else:
        judge.differ("TYPE_CHANGED", "None of the reader's alternatives takes what the writer writes.")


def from_combined(judge: Judge, reader: Node, writer: Combined) -> None:
    """A combination became a single schema."""
    if writer.criterion is not Criterion.ALL:
        judge.differ("SUM_TYPE_NARROWED", "The writer has several alternatives, the reader only one.")
    elif any(judge.fits(reader, branch) for branch in writer.branches):
        judge.differ("PRODUCT_TYPE_NARROWED", "The reader asks for one of several schemas only.")
    elif len(writer.branches) == 2:
        # A type beside an enum, a reference beside keywords: what matters is the part of the reader's kind.
        _blame(judge, reader, [judge.writer(branch) for branch in writer.branches])
    else:
        judge.differ("TYPE_CHANGED", "None of the parts that the writer keeps to satisfies the reader.")


def _blame(judge: Judge, reader: Node, branches: Sequence[Node]) -> None:
    alike = [branch for branch in branches if type(branch) is type(reader)]
    if alike:
        judge.need(reader, alike[0], IN_PLACE)
    else:
        judge.differ("TYPE_CHANGED", "None of the parts that the writer keeps to satisfies the reader.")


def _check_overlap(judge: Judge, reader: Combined) -> None:
    """Exactly one branch of ``oneOf`` may match, so branches that grow can shut each other out."""
    if reader.criterion is not Criterion.ONE or not judge.exact:
        return
    model = judge.pair.reader.model
    branches = [model.at(branch) for branch in reader.branches]
    for index, one in enumerate(branches):
        for other in branches[index + 1 :]:
            if not disjoint(Side(model, one), Side(model, other)):
                judge.differ(
                    "ALTERNATIVES_OVERLAP",
                    "Two of the reader's oneOf may both take the same value, which oneOf then refuses.",
                    reader=one.place,
                )
                return


def negated(judge: Judge, reader: Not, writer: Not) -> None:
    if judge.need_reversed(reader.inner, writer.inner):
        if not judge.fits(reader.inner, writer.inner):
            judge.differ("NOT_TYPE_NARROWED", "The reader refuses less.")
    else:
        judge.differ("NOT_TYPE_EXTENDED", "The reader refuses more than the writer avoids.")


def conditional(judge: Judge, reader: Conditional, writer: Conditional) -> None:
    """Only ``EXACT`` minds. With equal conditions the branches are compared one by one."""
    equal = judge.fits(reader.condition, writer.condition) and judge.need_reversed(
        reader.condition, writer.condition
    )
    branches = ((reader.then, writer.then), (reader.otherwise, writer.otherwise))
    if equal and all(new is None or (old is not None and judge.fits(new, old)) for new, old in branches):
        return
    judge.differ("CONDITION_CHANGED", "The reader's condition is not the writer's, or asks for more.")
