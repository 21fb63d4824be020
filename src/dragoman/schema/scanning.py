"""Texts of schema languages: their tokens, and places for people."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple, NoReturn

from dragoman.core.characters import check_characters
from dragoman.core.errors import InvalidSchema


class Token(NamedTuple):
    """``kind`` is the group of the pattern that matched, or ``end``. ``at`` is the offset in the text."""

    kind: str
    text: str
    at: int


class Source:
    """A text that knows its lines, to turn offsets into places."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]

    def place(self, at: int) -> tuple[int, int]:
        """Line and column, both counted from 1."""
        line = bisect_right(self._lines, at)
        return line, at - self._lines[line - 1] + 1

    def error(self, what: str, at: int, next: str = "") -> InvalidSchema:
        line, column = self.place(at)
        return InvalidSchema(what, next=next, line=line, column=column)

    def tokens(self, pattern: re.Pattern[str]) -> list[Token]:
        """All tokens but those of the group ``space``, closed by one of kind ``end``."""
        check_characters(self.text)
        text, found, at = self.text, list[Token](), 1 if self.text.startswith("\ufeff") else 0
        while at < len(text):
            token = pattern.match(text, at)
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
