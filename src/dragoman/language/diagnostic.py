"""What the tools have to say about a model: a rule, a place, a message, and a fix where one exists."""

from __future__ import annotations

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
    edits: list[Edit] = []
    for fix in fixes:
        if all(_apart(edit, taken) for edit in fix.edits for taken in edits):
            edits += [edit for edit in fix.edits if edit not in edits]
    for edit in sorted(edits, key=lambda edit: edit.span, reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text


def _apart(one: Edit, other: Edit) -> bool:
    if one == other:
        return True
    return one.span.end < other.span.start or other.span.end < one.span.start
