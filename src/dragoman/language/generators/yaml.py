"""Writing YAML: plain values in block style, so that what was meant is what is read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_/$][A-Za-z0-9_./$-]*(?: [A-Za-z0-9_(/][A-Za-z0-9_.,/()-]*)*")
_RESERVED = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"))
_ODD = re.compile(
    "[^\\x20-\\x7e\\xa0-\\u2027\\u202a-\\ud7ff\\ue000-\\ufefe\\uff00-\\ufffd\\U00010000-\\U0010ffff]"
)


def dump(value: Any) -> str:
    """A document in YAML."""
    return "\n".join(_lines(value, 0)) + "\n"


def _lines(value: Any, indent: int) -> Iterator[str]:
    pad = "  " * indent
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _entry(f"{pad}{_string(str(key))}:", item, indent)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _item(pad, item, indent)
    else:
        yield pad + _scalar(value)


def _entry(head: str, item: Any, indent: int) -> Iterator[str]:
    if isinstance(item, dict | list) and item:
        yield head
        yield from _lines(item, indent + 1)
    elif isinstance(item, str) and _block(item):
        yield f"{head} |-"
        yield from ("  " * (indent + 1) + line if line else "" for line in item.split("\n"))
    else:
        yield f"{head} {_scalar(item)}"


def _item(pad: str, item: Any, indent: int) -> Iterator[str]:
    """The first line of what is in a list stands behind the dash."""
    if not isinstance(item, dict | list) or not item:
        yield f"{pad}- {_scalar(item)}"
        return
    lines = list(_lines(item, indent + 1))
    yield f"{pad}- {lines[0].lstrip()}"
    yield from lines[1:]


def _block(text: str) -> bool:
    """Whether a text can stand as it is, line by line."""
    lines = text.split("\n")
    if len(lines) < 2 or text != text.strip():
        return False
    return not any(_ODD.search(line) or line != line.rstrip() or line.startswith(" ") for line in lines)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, float):
        return _float(value)
    return json.dumps(value)


def _float(value: float) -> str:
    if not math.isfinite(value):
        return _string(str(value))
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")


def _string(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return '"' + _ODD.sub(_escape, escaped) + '"'


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
