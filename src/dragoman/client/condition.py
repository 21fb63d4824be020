"""Conditions on messages, such as ``payload.amount > 1000 and header.region == "eu"``.

Read as a Python expression, of which only a little is let in, and compiled to closures once. Nothing of the
text is ever run: no calls, no names but ``payload``, ``header`` and ``key``, no attributes that begin with an
underscore. What is missing is ``None``; things that cannot be compared do not meet the condition.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeGuard

from dragoman.core.errors import ConfigurationError
from dragoman.core.message import Message, header

LONGEST = 4000
DEEPEST = 100
"""Levels of expressions inside expressions. Each is a call, for each message too."""
_PLAIN = frozenset({int, float, str, bool, type(None)})
"""What needs no second look."""

Get = Callable[[Message, Any], Any]
"""From the message and its decoded payload, if there is one already."""
Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """Two parts that both have to be met: one needs headers and key alone, the other the payload, too."""

    early: Get | None
    late: Get | None

    def meets(self, message: Message, value: Any) -> bool:
        if self.early is not None and not self.early(message, None):
            return False
        return self.late is None or bool(self.late(message, value))


class _Text(str):
    """A header or key: text that is compared with a number as a number."""

    __slots__ = ()


_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


def read_condition(text: str) -> Condition:
    """Raises ``ConfigurationError`` with the place of what is not understood."""
    if len(text) > LONGEST:
        raise _refused(text[:40] + "...", f"it is longer than {LONGEST} characters", None)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise _refused(text, "it is not an expression", None) from error
    if _is_deep(tree):
        raise _refused(text[:40] + "...", f"it is nested deeper than {DEEPEST} levels", None)
    parts = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]
    early = [_test(part, text) for part in parts if not _needs_payload(part)]
    late = [_test(part, text) for part in parts if _needs_payload(part)]
    return Condition(_every(early) if early else None, _every(late) if late else None)


def _is_deep(tree: ast.AST) -> bool:
    level = [tree]
    for _ in range(DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return bool(level)


def fields_of(text: str) -> frozenset[str]:
    """The fields of the payload that a condition looks at, without those inside of them."""
    below = [each for each in ast.walk(ast.parse(text.strip(), mode="eval")) if _is_payload(each)]
    names = (each.attr if isinstance(each, ast.Attribute) else ast.literal_eval(each.slice) for each in below)
    return frozenset(str(name) for name in names)


def _is_payload(node: ast.AST) -> TypeGuard[ast.Attribute | ast.Subscript]:
    if not isinstance(node, ast.Attribute | ast.Subscript):
        return False
    return isinstance(node.value, ast.Name) and node.value.id == "payload"


def _needs_payload(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "payload" for each in ast.walk(node))


def _test(node: ast.expr, text: str) -> Get:
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            return _every([_test(each, text) for each in values])
        case ast.BoolOp(values=values):
            return _some([_test(each, text) for each in values])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            test = _test(operand, text)
            return lambda message, value: not test(message, value)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            sides = (left, *comparators)
            steps = zip(ops, sides, sides[1:], strict=False)
            return _every([_comparison(op, one, other, text) for op, one, other in steps])
        case _:
            return _operand(node, text)


def _every(tests: list[Get]) -> Get:
    if len(tests) == 1:
        return tests[0]
    return lambda message, value: all(test(message, value) for test in tests)


def _some(tests: list[Get]) -> Get:
    return lambda message, value: any(test(message, value) for test in tests)


def _comparison(op: ast.cmpop, left: ast.expr, right: ast.expr, text: str) -> Get:
    how, one, other = _COMPARISONS[type(op)], _operand(left, text), _operand(right, text)
    if isinstance(right, ast.Constant) and not _is_text(left):
        return _with_constant(how, one, right.value)
    if isinstance(op, ast.Eq) and isinstance(right, ast.Constant) and isinstance(right.value, str):
        quick = _equals(left, right.value.encode())
        if quick is not None:
            return quick

    def compare(message: Message, value: Any) -> bool:
        here, there = one(message, value), other(message, value)
        try:
            if here.__class__ is _Text and _is_number(there):
                here = float(here)
            elif there.__class__ is _Text and _is_number(here):
                there = float(there)
            return bool(how(here, there))
        except (TypeError, ValueError):
            return False

    return compare


def _equals(node: ast.expr, wanted: bytes) -> Get | None:
    """To see whether a header or the key equals some text, it need not become text."""
    match node:
        case ast.Attribute(value=ast.Name(id="header" | "headers"), attr=name):
            return lambda message, value: header(message.headers, name) == wanted
        case ast.Name(id="key"):
            return lambda message, value: message.key == wanted
        case _:
            return None


def _with_constant(how: Callable[[Any, Any], Any], get: Get, constant: Any) -> Get:
    """The frequent case: a place in the payload beside a value."""

    def compare(message: Message, value: Any) -> Any:
        try:
            return how(get(message, value), constant)
        except TypeError:
            return False

    return compare


def _is_text(node: ast.expr) -> bool:
    """Headers and keys are text, whatever they stand for."""
    return not _needs_payload(node) and not isinstance(node, ast.Constant)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _operand(node: ast.expr, text: str) -> Get:
    match node:
        case ast.Constant(value=constant) if constant is None or isinstance(constant, str | int | float):
            return lambda message, value: constant
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            negative = -number
            return lambda message, value: negative
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            operands = [_operand(each, text) for each in elements]
            return lambda message, value: [each(message, value) for each in operands]
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return _place(node, text)
        case _:
            raise _refused(text, f"{ast.unparse(node)!r} is not allowed", node)


def _place(node: ast.expr, text: str) -> Get:
    steps: list[str | int] = []
    inner = node
    while True:
        match inner:
            case ast.Attribute(value=below, attr=name) if not name.startswith("_"):
                steps.append(name)
            case ast.Subscript(value=below, slice=ast.Constant(value=str() | int() as name)):
                if isinstance(name, str) and name.startswith("_"):
                    raise _refused(text, f"{ast.unparse(inner)!r} is not allowed", inner)
                steps.append(name)
            case ast.Name(id=root):
                return _rooted(root, tuple(reversed(steps)), text, node)
            case _:
                raise _refused(text, f"{ast.unparse(inner)!r} is not allowed", inner)
        inner = below


def _rooted(root: str, place: Place, text: str, node: ast.expr) -> Get:
    match root, place:
        case "payload", (str() as name,):
            return _field(name)
        case "payload", _:
            return lambda message, value: _found(value, place)
        case (("header" | "headers"), (str() as name,)):
            return lambda message, value: _text(header(message.headers, name))
        case "key", ():
            return lambda message, value: _text(message.key)
        case _:
            raise _refused(text, f"{ast.unparse(node)!r} is not known", node)


def _field(name: str) -> Get:
    def get(message: Message, value: Any) -> Any:
        found = value.get(name) if _is_mapping(value.__class__) else getattr(value, name, None)
        if found.__class__ in _PLAIN or not isinstance(found, Enum):
            return found
        return found.value

    return get


@lru_cache(maxsize=1000)
def _is_mapping(cls: type) -> bool:
    return issubclass(cls, Mapping)


def _found(value: Any, place: Place) -> Any:
    for step in place:
        value = _step(value, step)
    return value.value if isinstance(value, Enum) else value


def _step(value: Any, step: str | int) -> Any:
    if isinstance(step, str):
        return value.get(step) if _is_mapping(value.__class__) else getattr(value, step, None)
    within = isinstance(value, list | tuple) and -len(value) <= step < len(value)
    return value[step] if within else None


def _text(raw: bytes | None) -> _Text | None:
    return None if raw is None else _Text(raw, "utf-8", "replace")


def _refused(text: str, why: str, node: ast.expr | None) -> ConfigurationError:
    where = {} if node is None else {"column": node.col_offset + 1}
    return ConfigurationError(
        f"The condition {text!r} cannot be used: {why}.",
        code="configuration.condition",
        next="Compare payload.<field>, header.<name> and key with values; join with and, or, not.",
        **where,
    )
