"""Recursion without the interpreter's stack: schemas may nest deeper than Python likes to call.

A recursive function is written as a generator that yields the calls it makes and is sent their results:

    def depth(node):
        below = yield depth(node.child)
        return below + 1

    run(depth(root))
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")

Deep = Generator[Any, Any, T]


def done(value: T) -> Deep[T]:
    """A call that has nothing to wait for."""
    yield from ()
    return value


class Spent(Exception):
    """More calls than there may be: perhaps they have no end."""


class Budget:
    """How many calls several runs may make together."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Spent


def run(call: Deep[T], budget: Budget | None = None) -> T:
    """Raises ``Spent`` if the budget does not suffice."""
    stack: list[Deep[Any]] = [call]
    result: Any = None
    error: Exception | None = None
    while stack:
        try:
            inner = stack[-1].send(result) if error is None else stack[-1].throw(error)
        except StopIteration as done:
            stack.pop()
            result, error = done.value, None
        except Exception as raised:
            stack.pop()
            error = raised
        else:
            if budget is not None:
                budget.spend()
            stack.append(inner)
            result, error = None, None
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]
