"""A text that is being edited: the model it was when it last parsed, and the names in it now."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from dragoman.language.diagnostic import Diagnostic
from dragoman.language.lint import lint
from dragoman.language.model import Model
from dragoman.language.parser import Parsed, parse
from dragoman.language.references import Occurrence, occurrences
from dragoman.language.syntax import Declaration, Message, Name, walk
from dragoman.language.tokens import Span

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_USED = {"channel", "message"}
"""Endpoints use both by name."""


@dataclass(frozen=True)
class Document:
    """One state of a text. Built off the event loop; then only read."""

    parsed: Parsed
    diagnostics: tuple[Diagnostic, ...]

    @cached_property
    def model(self) -> Model:
        return Model(self.parsed)

    @cached_property
    def occurrences(self) -> tuple[Occurrence, ...]:
        return tuple(sorted(occurrences(self.model), key=lambda each: each.name.span))

    def at(self, offset: int) -> Occurrence | None:
        """The name under the cursor, which may also stand right behind it."""
        return next((o for o in self.occurrences if o.name.span.start <= offset <= o.name.span.end), None)

    def declaration(self, of: Occurrence) -> Name | None:
        found = (o.name for o in self.occurrences if o.declares and _same(o, of))
        return next(found, None)

    def uses(self, of: Occurrence, with_declaration: bool = True) -> list[Span]:
        found = (o for o in self.occurrences if _same(o, of) and (with_declaration or not o.declares))
        return [o.name.span for o in found]

    def refusal(self, of: Occurrence, new: str) -> str | None:
        """Why a name cannot become another one; nothing if it can."""
        if not _NAME.fullmatch(new):
            return f"'{new}' is not a name: use letters, digits and '_'."
        rivals = (o for o in self.occurrences if o.declares and o.name.text == new != of.name.text)
        if any(o.kind == of.kind or {o.kind, of.kind} == _USED for o in rivals):
            return f"There is a {of.kind} '{new}' already, or one that is used alike."
        if self.parsed.ok and not self._stands_for_the_same(of, new):
            return f"'{new}' means something else here."
        return None

    def _stands_for_the_same(self, of: Occurrence, new: str) -> bool:
        """Whether the new name would be read as one, wherever the old one stands: ``Data`` is also a role."""
        text, shift, starts = self.parsed.source.text, 0, set[int]()
        for start, end in self.uses(of):
            text = text[: start + shift] + new + text[end + shift :]
            starts.add(start + shift)
            shift += len(new) - (end - start)
        renamed = Document(parse(text), ())
        named = (each for each in renamed.occurrences if (each.name.text, each.kind) == (new, of.kind))
        return renamed.parsed.ok and starts <= {each.name.span.start for each in named}

    def declared(self, of: Occurrence) -> str | None:
        """The text of the declaration that a name stands for."""
        name = self.declaration(of)
        for member in self.parsed.api.members if name else ():
            for node in walk(member):
                if isinstance(node, Declaration | Message) and node.name is name:
                    return self.parsed.source.text[slice(*node.span)]
        return None


def _same(one: Occurrence, other: Occurrence) -> bool:
    return one.name.text == other.name.text and one.kind == other.kind


def read(text: str, name: str) -> Document:
    parsed = parse(text, name)
    return Document(parsed, tuple(lint(parsed)))
