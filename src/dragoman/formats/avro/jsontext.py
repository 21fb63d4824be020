"""JSON of any depth, read and written.

The standard library's reader recurses in C and gives up at about a thousand levels; a schema of that many
nested records has three times as many.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from dragoman.formats.avro.deep import Deep, run

_SPACE = re.compile(r"[ \t\n\r]*")
_END = object()


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text} is out of range")
    return number


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant)
"""The standard library takes ``NaN`` and ``Infinity``, which no other reader of schemas understands."""


def loads(text: str) -> Any:
    """Raises ``ValueError`` where this is not JSON."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        return _Reader(text).read()


def dumps(value: Any, sort: bool = False) -> str:
    """Compact, in the order of the objects or sorted by key."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort)
    except RecursionError:
        return _dumps_deep(value, sort)


def _dumps_deep(value: Any, sort: bool) -> str:
    parts: list[str] = []
    run(_write(value, parts, sort))
    return "".join(parts)


def _write(value: Any, parts: list[str], sort: bool) -> Deep[None]:
    if isinstance(value, dict):
        parts.append("{")
        for index, key in enumerate(sorted(value) if sort else value):
            parts.append(("," if index else "") + json.dumps(key, ensure_ascii=False) + ":")
            yield _write(value[key], parts, sort)
        parts.append("}")
    elif isinstance(value, list | tuple):
        parts.append("[")
        for index, item in enumerate(value):
            if index:
                parts.append(",")
            yield _write(item, parts, sort)
        parts.append("]")
    else:
        parts.append(json.dumps(value, ensure_ascii=False))


class _Reader:
    """Keeps the open objects and arrays on a list of its own."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def read(self) -> Any:
        root: list[Any] = []
        open: list[tuple[Any, str | None]] = [(root, None)]
        while True:
            container, key = open[-1]
            value = self._value()
            if value is not _END:
                if isinstance(container, dict):
                    container[key] = value
                else:
                    container.append(value)
                if isinstance(value, dict | list):
                    open.append((value, self._key() if isinstance(value, dict) else None))
                    continue
            if not self._next(open):
                break
        self._space()
        if self.at != len(self.text):
            raise json.JSONDecodeError("Extra data", self.text, self.at)
        return root[0]

    def _next(self, open: list[tuple[Any, str | None]]) -> bool:
        """Close what ends here and step to the next value; false when the text's own value is complete."""
        while len(open) > 1:
            container, _ = open[-1]
            self._space()
            end = "}" if isinstance(container, dict) else "]"
            mark = self.text[self.at : self.at + 1]
            if mark == end:
                self.at += 1
                open.pop()
            elif mark == "," and container:
                self.at += 1
                if isinstance(container, dict):
                    open[-1] = (container, self._key())
                return True
            else:
                raise json.JSONDecodeError(f"Expecting ',' or '{end}'", self.text, self.at)
        return False

    def _space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        if found is not None:
            self.at = found.end()

    def _key(self) -> str | None:
        """The next key of an object and its colon; ``None`` where an empty object ends."""
        self._space()
        if self.text[self.at : self.at + 1] == "}":
            return None
        if self.text[self.at : self.at + 1] != '"':
            raise json.JSONDecodeError("Expecting a property name", self.text, self.at)
        key, self.at = _DECODER.raw_decode(self.text, self.at)
        self._space()
        if self.text[self.at : self.at + 1] != ":":
            raise json.JSONDecodeError("Expecting ':'", self.text, self.at)
        self.at += 1
        return str(key)

    def _value(self) -> Any:
        self._space()
        mark = self.text[self.at : self.at + 1]
        if mark in ("}", "]"):
            return _END
        if mark in ("{", "["):
            self.at += 1
            return {} if mark == "{" else []
        value, self.at = _DECODER.raw_decode(self.text, self.at)
        return value
