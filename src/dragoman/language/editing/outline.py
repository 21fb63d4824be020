"""The outline of a model, and what can be folded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.language import syntax as s
from dragoman.language.parser import Parsed
from dragoman.language.tokens import Span


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    kind: str
    span: Span
    name_span: Span
    children: tuple[Entry, ...] = ()


def outline(parsed: Parsed) -> list[Entry]:
    """The declarations, channels with their messages."""
    entries = []
    for member in parsed.api.members:
        if isinstance(member, s.SignalTypes):
            kind = "event type" if member.event else "command type"
            entries += [Entry(each.name.text, kind, each.span, each.name.span) for each in member.types]
            continue
        messages = member.messages if isinstance(member, s.Channel) else ()
        children = tuple(Entry(m.name.text, "message", m.span, m.name.span) for m in messages)
        kind = member.of if isinstance(member, s.Broken) else member.kind
        entries.append(Entry(member.name.text, kind, member.span, member.name.span, children))
    return entries


def folds(parsed: Parsed) -> Iterator[tuple[int, int]]:
    """Lines, from one, between which there is something to fold."""
    source = parsed.source
    spans = [node.span for member in parsed.api.members for node in s.walk(member) if _foldable(node)]
    spans += [Span(comment.start, comment.end) for comment in source.comments]
    seen: set[int] = set()
    for span in sorted(spans):
        first, last = source.place(span.start).line, source.place(span.end).line
        if last > first and first not in seen:
            seen.add(first)
            yield first, last


def _foldable(node: s.Node) -> bool:
    return isinstance(node, s.Declaration | s.Message | s.Tree | s.AtomicList | s.Forest | s.Object)
