"""The tokens of a Thrift text, each with its place."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple, NoReturn

from dragoman.core.errors import InvalidSchema

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/)
  | (?P<word>[A-Za-z_](?:\.[A-Za-z_0-9]|[A-Za-z_0-9])*)
  | (?P<double>[+-]?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)(?!\w))
  | (?P<int>[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+)(?!\w))
  | (?P<string>"(?:[^"\\\n\0]|\\[^\n])*"|'(?:[^'\\\n\0]|\\[^\n])*')
  | (?P<mark>[{}\[\]()<>=;:,*&])
    """,
    re.VERBOSE | re.DOTALL,
)

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'"}


class Token(NamedTuple):
    """``kind`` is word, int, double, string, mark, or end. ``at`` is the offset in the text."""

    kind: str
    text: str
    at: int


class Source:
    """A text that knows its lines, to turn offsets into places for people."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]

    def error(self, what: str, at: int, next: str = "") -> InvalidSchema:
        line = bisect_right(self._lines, at)
        return InvalidSchema(what, next=next, line=line, column=at - self._lines[line - 1] + 1)

    def tokens(self) -> list[Token]:
        """All tokens, closed by one of kind ``end``. Comments and blanks are gone."""
        text, found, at = self.text, list[Token](), 1 if self.text.startswith("\ufeff") else 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                self._stray(at)
            if token.lastgroup != "space":
                found.append(Token(str(token.lastgroup), token.group(), at))
            at = token.end()
        found.append(Token("end", "", len(text)))
        return found

    def _stray(self, at: int) -> NoReturn:
        start = self.text[at]
        if self.text.startswith("/*", at):
            raise self.error("This comment is never closed.", at, "End it with '*/'.")
        if start in "\"'":
            raise self.error("This string is not closed on its line.", at)
        if start.isdigit():
            raise self.error("This is not a number.", at)
        raise self.error(f"{start!r} has no meaning here.", at)


def unquote(literal: str) -> str:
    """The text of a literal. Raises ``ValueError`` for an escape that does not exist."""

    def plain(found: re.Match[str]) -> str:
        if found.group(1) not in _ESCAPES:
            raise ValueError(f"Unknown escape {found.group()!r}.")
        return _ESCAPES[found.group(1)]

    return _ESCAPE.sub(plain, literal[1:-1])


def quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'
