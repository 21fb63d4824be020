"""One canonical form for every model. Meaning is kept, and so is each comment."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise

from dragoman.language import syntax
from dragoman.language.parser import Parsed, parse_strictly
from dragoman.language.printer import Line, Printer
from dragoman.language.tokens import Source, Token

_LOOK_BACK = 8
_BLANK = re.compile(r"\s*")


def format_text(text: str, name: str = "model.mdsl") -> str:
    """The canonical form. Raises ``ConfigurationError`` for a text that does not parse."""
    return format_parsed(parse_strictly(text, name))


def format_parsed(parsed: Parsed) -> str:
    printer = Printer(parsed.source)
    printer.api(parsed.api)
    end = _weave(parsed.source, printer.lines)
    compact = {member.span.start for member in _compact(parsed.api.members)}
    return _render(parsed.source, printer.lines, end, compact)


def _compact(members: tuple[syntax.Member, ...]) -> list[syntax.Member]:
    """Event and command types stand together without blank lines."""
    return [
        second
        for first, second in pairwise(members)
        if isinstance(first, syntax.SignalTypes) and isinstance(second, syntax.SignalTypes)
    ]


def _weave(source: Source, lines: list[Line]) -> list[Token]:
    """Give each comment to its line; those after the last token are returned."""
    if not source.comments:
        return []
    anchors = _anchors(source, lines)
    positions = [anchor for anchor, _ in anchors]

    def line_of(token: Token) -> Line:
        return anchors[max(bisect_right(positions, token.start) - 1, 0)][1]

    end: list[Token] = []
    for before, comment, after in source.neighbours():
        same_line = before is not None and "\n" not in source.text[before.end : comment.start]
        if before is not None and same_line and "\n" not in comment.text:
            line_of(before).trailing.append(comment)
        elif after is not None:
            line_of(after).leading.append(comment)
        else:
            end.append(comment)
    _one_line_comment_each(lines, end)
    return end


def _one_line_comment_each(lines: list[Line], end: list[Token]) -> None:
    """Behind a ``//`` comment nothing can stand: what was there goes before the next line."""
    for index, line in enumerate(lines):
        for position, comment in enumerate(line.trailing[:-1]):
            if comment.text.startswith("//"):
                rest = line.trailing[position + 1 :]
                del line.trailing[position + 1 :]
                following = lines[index + 1].leading if index + 1 < len(lines) else end
                following[:0] = rest
                break


def _anchors(source: Source, lines: list[Line]) -> list[tuple[int, Line]]:
    """Where each line's content starts, moved back to the word that the line starts with."""
    ordered = sorted(lines, key=lambda line: line.anchor)
    starts = source.significant_starts
    tokens = source.significant_tokens
    found: list[tuple[int, Line]] = []
    floor = -1
    for line in ordered:
        anchor = line.anchor
        index = bisect_right(starts, anchor) - 1
        first = line.text.lstrip().split(" ", 1)[0].rstrip(":")
        words = (first, "description") if first == "overview" else (first,)
        for back in range(index, max(index - _LOOK_BACK, -1), -1):
            if starts[back] <= floor or first[:1] in "}])":
                break
            if tokens[back].text in words:
                anchor = starts[back]
                break
        floor = max(floor, line.anchor)
        found.append((anchor, line))
    return sorted(found, key=lambda pair: pair[0])


def _render(source: Source, lines: list[Line], end: list[Token], compact: set[int]) -> str:
    out: list[str] = []
    for index, line in enumerate(lines):
        if line.opens and index and line.anchor not in compact:
            out.append("")
        pad = "  " * line.indent
        for comment in line.leading:
            out.append(pad + comment.text.rstrip())
            if line.opens and _blank_after(source, comment):
                out.append("")
        trailing = " ".join(comment.text.rstrip() for comment in line.trailing)
        out.append(pad + line.text + (f"  {trailing}" if trailing else ""))
    if end:
        out.append("")
        for comment in end:
            out.append(comment.text.rstrip())
            if comment is not end[-1] and _blank_after(source, comment):
                out.append("")
    return "\n".join(out) + "\n"


def _blank_after(source: Source, comment: Token) -> bool:
    blank = _BLANK.match(source.text, comment.end)
    return blank is not None and blank[0].count("\n") > 1
