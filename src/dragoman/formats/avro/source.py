"""Python source in the making: lines, the values they name, and which field each line is about."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple

from dragoman.formats.avro import runtime
from dragoman.formats.avro.nodes import Enum, Fixed, Node, Primitive, Record


def described(node: Node) -> str:
    """A type in the words of an error."""
    if isinstance(node, Record | Enum | Fixed):
        return f"{node.kind} {node.name}"
    if isinstance(node, Primitive) and node.logical is not None:
        zone = ", a datetime with a time zone" if node.logical.name.startswith("timestamp") else ""
        return f"{node.logical.name}{zone}"
    return node.kind


_numbers = itertools.count(1)


class About(NamedTuple):
    """What a line deals with, for the error it may raise."""

    path: str
    kind: str


NOTHING = About("", "")
MAX_STEPS = 8


@dataclass(slots=True)
class Source:
    """Grows line by line, then becomes functions. ``values`` are the objects the lines refer to."""

    title: str
    lines: list[str] = field(default_factory=list)
    about: list[About] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=lambda: dict(vars(runtime)))
    now: About = NOTHING
    filename: str = ""
    _indent: int = 0
    _names: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def add(self, line: str) -> None:
        self.lines.append("    " * self._indent + line)
        self.about.append(self.now)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.add(head)
        self._indent += 1
        yield
        self._indent -= 1

    def add_guard(self) -> None:
        """The end of a ``try``: errors go through ``failed``, which tells them in words."""
        with self.block("except Exception as error:"):
            self.add("raise failed(error) from error")

    def name(self, hint: str) -> str:
        return f"{hint}{next(self._names)}"

    def bind(self, value: Any, hint: str) -> str:
        """A name for an object that cannot be written as source."""
        name = self.name(hint.upper() + "_")
        self.values[name] = value
        return name

    def compile(self, function: str) -> Callable[..., Any]:
        self.filename = f"<avro codec {next(_numbers)}: {self.title}>"
        code = compile("\n".join(self.lines) + "\n", self.filename, "exec")
        exec(code, self.values)  # noqa: S102
        compiled: Callable[..., Any] = self.values[function]
        return compiled

    def blame(self, trace: TracebackType | None) -> About:
        """What the innermost line of ours in a traceback is about; its path goes through all of them."""
        found = [NOTHING]
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.filename:
                found.append(self.about[trace.tb_lineno - 1])
            trace = trace.tb_next
        steps = [about.path for about in found if about.path]
        if len(steps) > MAX_STEPS:
            steps = [*steps[: MAX_STEPS // 2], "...", *steps[-MAX_STEPS // 2 :]]
        return About(".".join(steps).replace(".[", "["), found[-1].kind)
