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
from typing import Any, NamedTuple

from dragoman.core.errors import ConfigurationError
from dragoman.core.message import Message, header

LONGEST = 4000

Test = Callable[["Scope"], Any]
Place = tuple[str | int, ...]


class Scope(NamedTuple):
    """What a condition looks at. ``value`` is the decoded payload, once there is one."""

    message: Message
    value: Any = None


@dataclass(frozen=True, slots=True)
class Condition:
    """Two parts that both have to be met: one needs headers and key alone, the other the payload, too."""

    early: Callable[[Message], bool] | None
    late: Callable[[Message, Any], bool] | None

    def meets(self, message: Message, value: Any) -> bool:
        if self.early is not None and not self.early(message):
            return False
        return self.late is None or self.late(message, value)


class _Text(str):
    """A header or key: text that is compared with a number as a number."""


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
    parts = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]
    early = [_compiled(part, text) for part in parts if not _needs_payload(part)]
    late = [_compiled(part, text) for part in parts if _needs_payload(part)]
    return Condition(
        _joined_early(early) if early else None,
        _joined_late(late) if late else None,
    )


def _joined_early(tests: list[Test]) -> Callable[[Message], bool]:
    return lambda message: all(test(Scope(message)) for test in tests)


def _joined_late(tests: list[Test]) -> Callable[[Message, Any], bool]:
    def meets(message: Message, value: Any) -> bool:
        scope = Scope(message, value)
        return all(test(scope) for test in tests)

    return meets


def _needs_payload(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "payload" for each in ast.walk(node))


def _compiled(node: ast.expr, text: str) -> Test:
    match node:
        case ast.BoolOp(op=op, values=values):
            tests = [_compiled(each, text) for each in values]
            every = all if isinstance(op, ast.And) else any
            return lambda scope: every(test(scope) for test in tests)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            test = _compiled(operand, text)
            return lambda scope: not test(scope)
        case ast.Compare():
            return _comparison(node, text)
        case _:
            return _operand(node, text)


def _comparison(node: ast.Compare, text: str) -> Test:
    steps = []
    sides = [_operand(each, text) for each in (node.left, *node.comparators)]
    for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
        steps.append((_COMPARISONS[type(op)], left, right))

    def compare(scope: Scope) -> bool:
        try:
            return all(_compare(how, left(scope), right(scope)) for how, left, right in steps)
        except (TypeError, ValueError):
            return False

    return compare


def _compare(how: Callable[[Any, Any], Any], left: Any, right: Any) -> bool:
    if isinstance(left, _Text) and isinstance(right, int | float) and not isinstance(right, bool):
        left = float(left)
    elif isinstance(right, _Text) and isinstance(left, int | float) and not isinstance(left, bool):
        right = float(right)
    return bool(how(left, right))


def _operand(node: ast.expr, text: str) -> Test:
    match node:
        case ast.Constant(value=value) if value is None or isinstance(value, str | int | float):
            return lambda scope: value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            negative = -value
            return lambda scope: negative
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            operands = [_operand(each, text) for each in elements]
            return lambda scope: [each(scope) for each in operands]
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return _place(node, text)
        case _:
            raise _refused(text, f"{ast.unparse(node)!r} is not allowed", node)


def _place(node: ast.expr, text: str) -> Test:
    steps: list[str | int] = []
    inner = node
    while True:
        match inner:
            case ast.Attribute(value=below, attr=name) if not name.startswith("_"):
                steps.append(name)
            case ast.Subscript(value=below, slice=ast.Constant(value=str() | int() as name)):
                steps.append(name)
            case ast.Name(id=root):
                return _rooted(root, tuple(reversed(steps)), text, node)
            case _:
                raise _refused(text, f"{ast.unparse(inner)!r} is not allowed", inner)
        inner = below


def _rooted(root: str, place: Place, text: str, node: ast.expr) -> Test:
    match root, place:
        case "payload", _:
            return lambda scope: _found(scope.value, place)
        case (("header" | "headers"), (str() as name,)):
            return lambda scope: _text(header(scope.message.headers, name))
        case "key", ():
            return lambda scope: _text(scope.message.key)
        case _:
            raise _refused(text, f"{ast.unparse(node)!r} is not known", node)


def _found(value: Any, place: Place) -> Any:
    for step in place:
        if value is None:
            return None
        if isinstance(step, int) or isinstance(value, list | tuple):
            indexed = isinstance(step, int) and isinstance(value, list | tuple)
            value = value[step] if indexed and -len(value) <= step < len(value) else None  # type: ignore[operator]
        elif isinstance(value, Mapping):
            value = value.get(step)
        else:
            value = getattr(value, step, None)
    return value.value if isinstance(value, Enum) else value


def _text(raw: bytes | None) -> _Text | None:
    return None if raw is None else _Text(raw.decode("utf-8", "replace"))


def _refused(text: str, why: str, node: ast.expr | None) -> ConfigurationError:
    where = {} if node is None else {"column": node.col_offset + 1}
    return ConfigurationError(
        f"The condition {text!r} cannot be used: {why}.",
        code="configuration.condition",
        next="Compare payload.<field>, header.<name> and key with values; join with and, or, not.",
        **where,
    )
