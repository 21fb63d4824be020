"""The tokens of a .proto text, each with its place."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple, NoReturn

from dragoman.core.errors import InvalidSchema

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<float>(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)(?![A-Za-z0-9_.]))
  | (?P<int>(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)(?![A-Za-z0-9_.]))
  | (?P<string>"(?:[^"\\\n\0]|\\[^\n])*"|'(?:[^'\\\n\0]|\\[^\n])*')
  | (?P<mark>[{}\[\]()<>=;:,.+-]|/(?!\*))
    """,
    re.VERBOSE | re.DOTALL,
)

_ESCAPE = re.compile(
    rb"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([abfnrtv?'\"\\]))"
)
_ESCAPED = dict(zip(b"abfnrtv?'\"\\", b"\a\b\f\n\r\t\v?'\"\\", strict=True))


class Token(NamedTuple):
    """``kind`` is word, int, float, string, mark, or end. ``at`` is the offset in the text."""

    kind: str
    text: str
    at: int


class Source:
    """A text that knows its lines, to turn offsets into places for people."""

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

    def tokens(self) -> list[Token]:
        """All tokens, closed by one of kind ``end``. Comments and blanks are gone."""
        text, found, at = self.text, list[Token](), 1 if self.text.startswith("\ufeff") else 0
        match = _TOKEN.match
        while at < len(text):
            token = match(text, at)
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
            word = re.match(r"[\w.]*", self.text[at:])
            raise self.error(f"{word.group() if word else start!r} is not a number.", at)
        raise self.error(f"{start!r} has no meaning here.", at)


def unescape(literal: str) -> bytes:
    """The bytes of a quoted string. Raises ``ValueError`` for an escape that does not exist."""
    raw = literal[1:-1].encode("utf-8", "surrogatepass")
    if b"\\" not in raw:
        return raw
    parts, at = list[bytes](), 0
    while (slash := raw.find(b"\\", at)) >= 0:
        found = _ESCAPE.match(raw, slash)
        if found is None:
            raise ValueError(f"Unknown escape {raw[slash : slash + 2].decode(errors='replace')!r}.")
        parts += (raw[at:slash], _escaped(found))
        at = found.end()
    return b"".join((*parts, raw[at:]))


def _escaped(found: re.Match[bytes]) -> bytes:
    hexadecimal, octal, short, long, letter = found.groups()
    if letter:
        return bytes((_ESCAPED[letter[0]],))
    if short or long:
        point = int(short or long, 16)
        if point > 0x10FFFF or 0xD800 <= point < 0xE000:
            raise ValueError(f"U+{point:X} is not a character.")
        return chr(point).encode()
    value = int(hexadecimal, 16) if hexadecimal else int(octal, 8)
    if value > 255:
        raise ValueError(f"\\{octal.decode()} does not fit a byte.")
    return bytes((value,))


def quote(raw: bytes) -> str:
    """The bytes as a string literal in ASCII, the same for the same bytes."""
    shown = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", ord('"'): '\\"', ord("\\"): "\\\\"}
    return '"' + "".join(shown.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in raw) + '"'
