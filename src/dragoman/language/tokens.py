"""The lexer. Nothing is thrown away: the texts of the tokens, joined, are the source again."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import NamedTuple

WORD, STRING, NUMBER, MARK, COMMENT, BLANK, BAD, END = (
    "word",
    "string",
    "number",
    "mark",
    "comment",
    "blank",
    "bad",
    "end",
)

# The alternatives start with different characters and repeat possessively, so no input is scanned twice.
_STRINGS = {'"': r'"(?:[^"\\]++|\\.)*+"', "'": r"'(?:[^'\\]++|\\.)*+'"}
_ALTERNATIVES = r"""(?P<blank>[\s\ufeff]++)
      | (?P<comment>//[^\n]*+ | /\*(?:[^*]++|\*(?!/))*+\*/)
      | (?P<string>%s)
      | (?P<word>JSON-RPC\b | \^?[A-Za-z_][A-Za-z0-9_]*+)
      | (?P<number>-?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)
      | (?P<mark><<|>>|==|!=|<=|>=|[{}()\[\]<>,;:|?*+!])
      | (?P<bad>[^\s\ufeff\w"'/{}()\[\]<>,;:|?*+!=^-]++|.)
    """


@cache
def _pattern(quotes: str) -> re.Pattern[str]:
    """The pattern of all tokens, with strings in these quotes only."""
    strings = "|".join(_STRINGS[quote] for quote in quotes) or "(?!)"
    return re.compile(_ALTERNATIVES % strings, re.VERBOSE | re.DOTALL)


class Token(NamedTuple):
    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class Span(NamedTuple):
    """A piece of the source, in characters."""

    start: int
    end: int


class Place(NamedTuple):
    """A position as people count it: from one."""

    line: int
    column: int


@dataclass(frozen=True)
class Source:
    """A text with its name and its tokens."""

    text: str
    name: str = "model.mdsl"
    tokens: tuple[Token, ...] = field(default=(), repr=False, compare=False)

    @cached_property
    def line_starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    def place(self, offset: int) -> Place:
        line = bisect_right(self.line_starts, offset)
        return Place(line, offset - self.line_starts[line - 1] + 1)

    def offset(self, line: int, column: int) -> int:
        """The inverse of ``place``, with both held inside the text."""
        line = min(max(line, 1), len(self.line_starts))
        start = self.line_starts[line - 1]
        end = self.line_starts[line] - 1 if line < len(self.line_starts) else len(self.text)
        return min(start + max(column, 1) - 1, end)

    @cached_property
    def significant_tokens(self) -> tuple[Token, ...]:
        """All but comments and blanks."""
        return tuple(token for token in self.tokens if token.kind not in (COMMENT, BLANK))

    @cached_property
    def significant_starts(self) -> list[int]:
        return [token.start for token in self.significant_tokens]

    def significant(self, span: Span) -> tuple[Token, ...]:
        first = bisect_left(self.significant_starts, span.start)
        return self.significant_tokens[first : bisect_left(self.significant_starts, span.end)]

    def neighbours(self) -> Iterator[tuple[Token | None, Token, Token | None]]:
        """Each comment with the tokens before and after it."""
        for comment in self.comments:
            index = bisect_left(self.significant_starts, comment.start)
            before = self.significant_tokens[index - 1] if index else None
            after = self.significant_tokens[index] if index < len(self.significant_tokens) else None
            yield before, comment, after

    @cached_property
    def comments(self) -> tuple[Token, ...]:
        return tuple(token for token in self.tokens if token.kind == COMMENT)


def tokenize(text: str, name: str = "model.mdsl") -> Source:
    """Split a text into tokens. What fits no token becomes one of kind ``bad``, up to the line's end."""
    return Source(text, name, tuple(_tokens(text)))


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    position, size, quotes = 0, len(text), "\"'"
    while position < size:
        for found in _pattern(quotes).finditer(text, position):
            if found.lastgroup == BAD:
                break
            tokens.append(Token(str(found.lastgroup), found[0], position))
            position = found.end()
        if position < size:
            end = _end_of_bad(text, position, quotes)
            # Once a quote is found unclosed, no later one of its kind closes either: do not look again.
            quotes = quotes.replace(text[position], "")
            tokens.append(Token(BAD, text[position:end], position))
            position = end
    return tokens


def _end_of_bad(text: str, position: int, quotes: str) -> int:
    """An unclosed comment runs to the end, an unclosed string to the end of its line."""
    if text.startswith("/*", position):
        return len(text)
    if text[position] in "\"'":
        line_end = text.find("\n", position)
        return line_end if line_end >= 0 else len(text)
    found = _pattern(quotes).match(text, position)
    return found.end() if found else position + 1


def unquoted(raw: str) -> str:
    """The value of a string token."""
    body = raw[1:-1]
    if "\\" not in body:
        return body
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), body, flags=re.DOTALL)


def quoted(value: str) -> str:
    """The string token of a value."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
