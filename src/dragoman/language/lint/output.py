"""Diagnostics for programs: JSON, and SARIF for code review tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.language.diagnostic import SYNTAX, Diagnostic, Severity
from dragoman.language.lint import RULES
from dragoman.language.tokens import Source

_SARIF_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_json(source: Source, diagnostics: Sequence[Diagnostic]) -> list[dict[str, Any]]:
    return [_json(source, each) for each in diagnostics]


def _json(source: Source, each: Diagnostic) -> dict[str, Any]:
    start, end = source.place(each.span.start), source.place(each.span.end)
    return {
        "file": source.name,
        "line": start.line,
        "column": start.column,
        "end_line": end.line,
        "end_column": end.column,
        "rule": each.rule,
        "severity": each.severity.word,
        "message": each.message,
        "expected": list(each.expected),
        "fix": each.fix.title if each.fix else None,
    }


def as_sarif(results: Sequence[tuple[Source, Sequence[Diagnostic]]]) -> dict[str, Any]:
    """One SARIF log for all files."""
    rules = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.summary},
            "defaultConfiguration": {"level": _SARIF_LEVELS[rule.severity]},
        }
        for rule in RULES.values()
    ]
    rules.append({"id": SYNTAX, "shortDescription": {"text": "The model follows the grammar."}})
    found = [_result(source, each) for source, diagnostics in results for each in diagnostics]
    driver = {"name": "dragoman", "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": found}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(source: Source, each: Diagnostic) -> dict[str, Any]:
    artifact = {"uri": source.name}
    result: dict[str, Any] = {
        "ruleId": each.rule,
        "level": _SARIF_LEVELS[each.severity],
        "message": {"text": each.message},
        "locations": [
            {"physicalLocation": {"artifactLocation": artifact, "region": _region(source, *each.span)}}
        ],
    }
    if each.fix:
        replacements = [
            {"deletedRegion": _region(source, *edit.span), "insertedContent": {"text": edit.text}}
            for edit in each.fix.edits
        ]
        changes = [{"artifactLocation": artifact, "replacements": replacements}]
        result["fixes"] = [{"description": {"text": each.fix.title}, "artifactChanges": changes}]
    return result


def _region(source: Source, start: int, end: int) -> dict[str, int]:
    first, last = source.place(start), source.place(end)
    return {
        "startLine": first.line,
        "startColumn": first.column,
        "endLine": last.line,
        "endColumn": last.column,
    }
