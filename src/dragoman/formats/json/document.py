"""From text to a JSON value, within limits, with the place of whatever is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dragoman.core.characters import check_json_characters
from dragoman.core.errors import InvalidSchema

MAX_BYTES = 1_048_576
MAX_DEPTH = 100


def read(text: str) -> Any:
    """The JSON value of a schema text. Raises ``InvalidSchema``."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise InvalidSchema(
            f"The schema has more than {MAX_BYTES} bytes.",
            code="schema.invalid.size",
            next="Split it and use references.",
        )
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_float=_float, parse_int=_int, parse_constant=_constant
        )
    except json.JSONDecodeError as error:
        raise InvalidSchema(
            f"The schema is not JSON: {error.msg}.", line=error.lineno, column=error.colno
        ) from None
    except RecursionError:
        raise _too_deep() from None
    if depth(value) > MAX_DEPTH:
        raise _too_deep()
    check_json_characters(text, lambda: compact(value))
    return value


def depth(value: Any) -> int:
    """How many arrays and objects are nested. Does not recurse, so that any value can be measured."""
    deepest = 0
    pending: list[tuple[Any, int]] = [(value, 1)]
    while pending:
        each, level = pending.pop()
        if isinstance(each, dict):
            pending += [(child, level + 1) for child in each.values()]
        elif isinstance(each, list):
            pending += [(child, level + 1) for child in each]
        else:
            continue
        deepest = max(deepest, level)
    return deepest


def compact(value: Any, sort: bool = False) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=sort)


def pointer(path: Iterable[object]) -> str:
    """A JSON pointer of its steps."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def steps(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _too_deep() -> InvalidSchema:
    return InvalidSchema(
        f"The schema is nested more than {MAX_DEPTH} levels deep.",
        code="schema.invalid.depth",
        next="Name the inner parts in definitions and refer to them.",
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidSchema(f"The key {twice!r} is written twice in one object.", next="Keep one of them.")
    return value


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise InvalidSchema(f"The number {text} is out of range.", next="Use one that fits a double.")
    return value


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidSchema(f"A number of {len(text)} digits is out of range.") from None


def _constant(text: str) -> float:
    raise InvalidSchema(f"{text} is not JSON.", next="JSON has no such number.")
