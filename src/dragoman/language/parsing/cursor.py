"""Moving over the tokens: looking ahead, expecting, reporting, recovering."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from typing import TypeVar

from dragoman.language.diagnostic import SYNTAX, Diagnostic, Fix, Severity, insert, replace
from dragoman.language.syntax import Keyword, Name, Text
from dragoman.language.tokens import (
    BAD,
    END,
    NUMBER,
    STRING,
    WORD,
    Source,
    Span,
    Token,
    unquoted,
)
from dragoman.language.words import DECLARATIONS, MISSPELT, SINGLE_DECLARATIONS

MAX_DEPTH = 60
"""Structures may be nested this deep. The limit keeps the parser, and all that walks the tree, safe."""

Function = TypeVar("Function", bound=Callable[..., object])

GRAMMAR: dict[str, str] = {}
"""The rules of the grammar by name. Each stands at the function that parses it."""


def rule(ebnf: str) -> Callable[[Function], Function]:
    """Say which rule of the grammar a function parses. The grammar's reference is made from these."""

    def mark(function: Function) -> Function:
        GRAMMAR[rule_name(function)] = " ".join(ebnf.split())
        return function

    return mark


def rule_name(function: Callable[..., object]) -> str:
    return "".join(part.capitalize() for part in function.__name__.split("_"))


def one_of(words: Sequence[str]) -> str:
    """The alternatives of a fixed set of words, as the grammar writes them."""
    return " | ".join(f"'{word}'" for word in words)


class Fault(Exception):
    """The declaration cannot be read on. It was reported; the parser goes on with the next one."""


class Cursor:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = [*source.significant_tokens, Token(END, "", len(source.text))]
        self.last = len(self.tokens) - 1
        self.index = 0
        self.depth = 0
        self.problems: list[Diagnostic] = []

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def ahead(self, distance: int = 1) -> Token:
        return self.tokens[min(self.index + distance, self.last)]

    def advance(self) -> Token:
        token = self.tokens[self.index]
        if self.index < self.last:
            self.index += 1
        return token

    def at(self, first: str, *others: str) -> bool:
        """Whether the next tokens are these words and marks, in this order."""
        # A string's text starts with its quote, so it equals no word and no mark.
        if self.tokens[self.index].text != first:
            return False
        return not others or all(self.ahead(distance).text == text for distance, text in enumerate(others, 1))

    def take(self, first: str, *others: str) -> bool:
        """Go past these words if they are next."""
        if not self.at(first, *others):
            return False
        self.index = min(self.index + 1 + len(others), self.last)
        return True

    def expect(self, *texts: str) -> Span:
        """Go past these words; it is an error if they are not there."""
        start = self.token.start
        for text in texts:
            if not self.take(text):
                self._mend(text)
        return self.since(start)

    def _mend(self, text: str) -> None:
        """A word that is nearly the expected one is taken for it, after saying so."""
        found = self.token
        if found.kind == WORD and text.isalpha() and get_close_matches(found.text, [text], cutoff=0.7):
            fix = replace(f"Write '{text}'", self.here(), text)
            self.report(f"Expected '{text}', found '{found.text}'.", self.here(), (text,), fix)
            self.advance()
            return
        raise self.fault((text,))

    def expect_mark(self, text: str) -> None:
        """Go past a bracket or comma; a missing one is reported, with its fix, and taken as if present."""
        if not self.take(text):
            self.missing(text)

    def missing(self, text: str) -> None:
        if self.token.kind == BAD:
            raise self.fault((text,))
        offset = self.tokens[self.index - 1].end if self.index else 0
        fix = insert(f"Insert '{text}'", offset, text)
        self.report(f"Expected '{text}', found {self.found()}.", self.here(), (text,), fix)

    def fault(self, expected: Sequence[str], what: str = "") -> Fault:
        """Report what was expected here. To be raised: the declaration is given up."""
        token = self.token
        fix: Fix | None
        if token.kind == BAD and token.text[0] in "\"'":
            message, fix = "This string is not closed.", insert("Close the string", token.end, token.text[0])
        elif token.kind == BAD and token.text.startswith("/*"):
            message, fix = "This comment is not closed.", insert("Close the comment", token.end, " */")
        else:
            message = f"Expected {what or alternatives(expected)}, found {self.found()}."
            fix = self._nearest(expected) if token.kind in (WORD, BAD) else None
        self.report(message, self.here(), tuple(expected), fix)
        return Fault()

    def _nearest(self, expected: Sequence[str]) -> Fix | None:
        near = get_close_matches(self.token.text, expected, n=1, cutoff=0.6)
        return replace(f"Write '{near[0]}'", self.here(), near[0]) if near else None

    def report(self, message: str, span: Span, expected: tuple[str, ...], fix: Fix | None = None) -> None:
        if self.problems and self.problems[-1].span.start >= span.start:
            return
        self.problems.append(Diagnostic(SYNTAX, Severity.ERROR, message, span, fix, expected))

    def found(self) -> str:
        if self.token.kind == END:
            return "the end of the file"
        text = self.token.text.split("\n", 1)[0]
        return f"'{text if len(text) <= 40 else text[:37] + '...'}'"

    def here(self) -> Span:
        return Span(self.token.start, self.token.end)

    def since(self, start: int) -> Span:
        """From ``start`` to the end of the last token that was taken."""
        end = self.tokens[self.index - 1].end if self.index else 0
        return Span(start, max(start, end))

    def name(self, what: str = "a name") -> Name:
        token = self.token
        if token.kind != WORD:
            raise self.fault(("NAME",), what)
        self.advance()
        return Name(text=token.text.lstrip("^"), span=Span(token.start, token.end))

    def text(self, what: str = "a string") -> Text:
        token = self.token
        if token.kind != STRING:
            raise self.fault(("STRING",), what)
        self.advance()
        return Text(value=unquoted(token.text), raw=token.text, span=Span(token.start, token.end))

    def integer(self) -> int:
        token = self.token
        if token.kind != NUMBER or not token.text.isdigit():
            raise self.fault(("INT",), "a whole number")
        self.advance()
        # Beyond this many digits Python refuses to convert; nobody counts that far.
        return int(token.text[:30])

    def keyword(self, words: Sequence[str], what: str, string: bool = False) -> Keyword:
        """One of the words, an old spelling of one, or a string where that is allowed."""
        token = self.token
        span = self.here()
        if string and token.kind == STRING:
            self.advance()
            return Keyword(text=unquoted(token.text), quoted=True, written=token.text, span=span)
        text = MISSPELT.get(token.text, token.text)
        if token.kind != WORD or text not in words:
            raise self.fault(tuple(words), what)
        self.advance()
        return Keyword(text=text, written=token.text, span=span)

    @rule("'description' STRING")
    def description(self) -> Text | None:
        return self.text() if self.take("description") else None

    @rule("'version' STRING")
    def version(self) -> Text | None:
        return self.text() if self.take("version") else None

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.report(f"This is nested deeper than {MAX_DEPTH} levels.", self.here(), ())
            raise Fault

    def at_declaration(self) -> bool:
        token = self.tokens[self.index]
        if token.kind != WORD:
            return token.kind == END
        if token.text in SINGLE_DECLARATIONS:
            return self.ahead().kind == WORD and not self.at("channel", "type")
        if token.text == "IPA":
            return self.ahead().kind == END
        # In an HTTP binding, "data type X to ..." maps a type that is declared elsewhere.
        return self.ahead().text in DECLARATIONS.get(token.text, ()) and self.ahead(3).text != "to"

    def recover(self, start: int) -> None:
        """Skip to the next line that starts a declaration, after ``start`` at least."""
        if self.index <= start:
            self.index = min(start + 1, self.last)
        while self.token.kind != END and not self.at_new_declaration():
            self.index += 1

    def at_new_declaration(self) -> bool:
        """Whether a declaration starts here, on a line of its own."""
        return self.at_declaration() and self._first_on_line()

    def _first_on_line(self) -> bool:
        before = self.tokens[self.index - 1] if self.index else None
        return before is None or "\n" in self.source.text[before.end : self.token.start]

    def skip_until(self, stops: Collection[str]) -> tuple[str, ...]:
        """The texts of the tokens up to a declaration or one of these words at the start of a line."""
        words: list[str] = []
        while self.token.kind not in (END, BAD):
            if self._first_on_line() and (self.at_declaration() or self.token.text in stops) and words:
                break
            words.append(self.advance().text)
        return tuple(words)


def alternatives(expected: Sequence[str]) -> str:
    shown = [text if text.isupper() and len(text) > 5 else f"'{text}'" for text in expected[:12]]
    if len(shown) == 1:
        return shown[0]
    return ", ".join(shown[:-1]) + " or " + shown[-1]
