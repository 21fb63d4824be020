"""Silencing a rule in the file.

``// lint: allow rule-id`` silences rules for the line it stands on, or, on a line of its own, for the
declaration or line that follows. ``// lint: allow-file rule-id`` silences them for the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dragoman.language.diagnostic import Diagnostic
from dragoman.language.parser import Parsed
from dragoman.language.tokens import Span

_ALLOW = re.compile(r"lint:\s*(allow-file|allow)\s+([\w-]+(?:\s*,\s*[\w-]+)*)")


def audible(parsed: Parsed, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The diagnostics that no comment silences."""
    silences = list(_silences(parsed))
    return [
        each
        for each in diagnostics
        if not any(each.rule == rule and span.start <= each.span.start < span.end for rule, span in silences)
    ]


def _silences(parsed: Parsed) -> Iterable[tuple[str, Span]]:
    source = parsed.source
    starts = {member.span.start: member.span for member in parsed.api.members}
    for before, comment, after in source.neighbours() if "lint:" in source.text else ():
        found = _ALLOW.search(comment.text)
        if found is None:
            continue
        trailing = before is not None and "\n" not in source.text[before.end : comment.start]
        if found[1] == "allow-file":
            span = Span(0, len(source.text) + 1)
        elif trailing or after is None:
            span = _line(parsed, comment.start)
        else:
            span = starts.get(after.start) or _line(parsed, after.start)
        yield from ((rule.strip(), span) for rule in found[2].split(","))


def _line(parsed: Parsed, offset: int) -> Span:
    line = parsed.source.place(offset).line
    starts = parsed.source.line_starts
    return Span(starts[line - 1], starts[line] if line < len(starts) else len(parsed.source.text) + 1)
