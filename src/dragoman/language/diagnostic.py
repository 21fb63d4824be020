"""What the tools have to say about a model: a rule, a place, a message, and a fix where one exists."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from dragoman.language.tokens import Span

SYNTAX = "syntax"


class Severity(IntEnum):
    ERROR = 1
    WARNING = 2
    INFO = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace a piece of the source."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that removes the cause. Its edits do not overlap."""

    title: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    rule: str
    severity: Severity
    message: str
    span: Span
    fix: Fix | None = None
    expected: tuple[str, ...] = ()
    """For a syntax error: what could have stood here."""


def replace(title: str, span: Span, text: str) -> Fix:
    return Fix(title, (Edit(span, text),))


def insert(title: str, offset: int, text: str) -> Fix:
    return replace(title, Span(offset, offset), text)


def apply(text: str, fixes: Iterable[Fix]) -> str:
    """The text with the fixes made. A fix that overlaps an earlier one is left for the next round."""
    taken: list[Edit] = []
    for fix in fixes:
        new = [edit for edit in fix.edits if not _made(edit, taken)]
        if all(_apart(edit, taken) for edit in new):
            for edit in new:
                insort(taken, edit, key=_span)
    pieces, end = [], 0
    for edit in taken:
        pieces += [text[end : edit.span.start], edit.text]
        end = edit.span.end
    return "".join(pieces) + text[end:]


def _span(edit: Edit) -> Span:
    return edit.span


def _made(edit: Edit, taken: list[Edit]) -> bool:
    at = bisect_left(taken, edit.span, key=_span)
    return taken[at : at + 1] == [edit]


def _apart(edit: Edit, taken: list[Edit]) -> bool:
    """Whether it touches neither of those that stand before and behind it."""
    at = bisect_left(taken, edit.span, key=_span)
    before, behind = taken[max(at - 1, 0) : at], taken[at : at + 1]
    return all(each.span.end < edit.span.start for each in before) and all(
        edit.span.end < each.span.start for each in behind
    )
