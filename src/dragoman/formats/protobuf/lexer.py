"""The tokens of a .proto text, and its strings."""

from __future__ import annotations

import re

TOKEN = re.compile(
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
