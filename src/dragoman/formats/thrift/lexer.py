"""The tokens of a Thrift text, and its strings."""

from __future__ import annotations

import re

TOKEN = re.compile(
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
