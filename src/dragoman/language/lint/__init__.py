"""The linter: rules over a model, what they found, and how to mend it."""

from __future__ import annotations

from dragoman.language.diagnostic import Diagnostic, Severity, apply
from dragoman.language.lint import brokers, channels, endpoints, flows, messages, names, types
from dragoman.language.lint.rule import RULES, Rule
from dragoman.language.lint.silence import audible
from dragoman.language.model import Model
from dragoman.language.parser import Parsed, parse

__all__ = ["MODULES", "RULES", "Rule", "fix", "has_errors", "lint", "lint_text"]

MODULES = (names, channels, messages, brokers, endpoints, types, flows)
_ROUNDS = 50
"""More than any model needs: it ends where fixes would undo each other."""


def lint(parsed: Parsed) -> list[Diagnostic]:
    """All there is to say about a model, by place. With syntax errors, only these."""
    if parsed.problems:
        return list(parsed.problems)
    model = Model(parsed)
    found = [
        Diagnostic(rule.id, rule.severity, finding.message, finding.span, finding.fix)
        for rule in RULES.values()
        for finding in rule.check(model)
    ]
    found = audible(parsed, found)
    return sorted(found, key=lambda each: (each.span.start, each.severity, each.rule))


def lint_text(text: str, name: str = "model.mdsl") -> list[Diagnostic]:
    return lint(parse(text, name))


def has_errors(diagnostics: list[Diagnostic]) -> bool:
    return any(each.severity is Severity.ERROR for each in diagnostics)


def fix(text: str, name: str = "model.mdsl") -> str:
    """The text with all fixes made. One fix may make room for the next, so it goes over it a few times."""
    for _ in range(_ROUNDS):
        fixes = [each.fix for each in lint_text(text, name) if each.fix is not None]
        fixed = apply(text, fixes)
        if fixed == text:
            break
        text = fixed
    return text
