"""What a rule is: an id, a severity, one sentence, and a function from a model to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dragoman.language.diagnostic import Fix, Severity
from dragoman.language.model import Model
from dragoman.language.tokens import Span


@dataclass(frozen=True, slots=True)
class Finding:
    message: str
    span: Span
    fix: Fix | None = None


Check = Callable[[Model], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    severity: Severity
    summary: str
    check: Check


RULES: dict[str, Rule] = {}
"""All rules by id, in the order of their modules."""


def error(summary: str) -> Callable[[Check], Check]:
    return _register(Severity.ERROR, summary)


def warning(summary: str) -> Callable[[Check], Check]:
    return _register(Severity.WARNING, summary)


def info(summary: str) -> Callable[[Check], Check]:
    return _register(Severity.INFO, summary)


def _register(severity: Severity, summary: str) -> Callable[[Check], Check]:
    """The rule's id is the function's name with hyphens."""

    def add(check: Check) -> Check:
        id = check.__name__.replace("_", "-")
        RULES[id] = Rule(id, severity, summary, check)
        return check

    return add
