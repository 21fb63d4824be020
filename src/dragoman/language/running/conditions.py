"""``consumed if``: whether a message meets a condition of the model."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

from dragoman.core.message import Message
from dragoman.language import syntax as s
from dragoman.language.pointer import index_of, read_pointer
from dragoman.schema.records import describe, is_record

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _Header(str):
    """Text that may mean a number, since headers know nothing else."""


class Select:
    """The conditions of one endpoint; a message is wanted if it meets all of them."""

    def __init__(self, conditions: Iterable[s.Condition]) -> None:
        self._conditions = tuple(conditions)

    def wants(self, message: Message, value: object) -> bool:
        return all(_holds(each, message, value) for each in self._conditions)


def _holds(condition: s.Condition, message: Message, value: object) -> bool:
    """What is missing meets no condition. A header is text, and of the kind that it is compared with."""
    left = _side(condition.left.value, message, value)
    right: Any = condition.right.value
    if isinstance(right, str) and right.startswith("$message"):
        right = _side(right, message, value)
    if left is None or right is None:
        return False
    try:
        return _COMPARE[condition.operator](*_alike(left, right))
    except (TypeError, ValueError):
        return False


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    """A header beside a number or a truth is read as one."""
    if isinstance(left, _Header) and not isinstance(right, str):
        return _read(left, right), right
    if isinstance(right, _Header) and not isinstance(left, str):
        return left, _read(right, left)
    return left, right


def _read(text: str, like: Any) -> Any:
    if isinstance(like, bool):
        return text.lower() == "true"
    return float(text)


def _side(expression: str, message: Message, value: object) -> Any:
    """What an expression points at in a message, or nothing."""
    pointer = read_pointer(expression)
    if pointer is None:
        return None
    if pointer.part == "header":
        found = message.header("/".join(pointer.tokens))
        return None if found is None else _Header(found.decode("utf-8", "replace"))
    reached: Any = value
    for token in pointer.tokens:
        reached = _step(reached, token)
    return reached.value if isinstance(reached, Enum) else reached


def _step(value: Any, token: str) -> Any:
    """One step down. Fields have the names of the schema, whatever Python calls them."""
    if isinstance(value, list | tuple):
        place = index_of(token)
        return value[place] if place is not None and place < len(value) else None
    if isinstance(value, Mapping):
        return value.get(token)
    if is_record(type(value)):
        for field in describe(type(value)).fields:
            if field.name == token:
                return getattr(value, field.attribute)
    return None
