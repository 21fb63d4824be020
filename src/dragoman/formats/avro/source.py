"""Python source in the making: lines, the values they name, and which field each line is about."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple

from dragoman.formats.avro import runtime
from dragoman.formats.avro.nodes import Enum, Fixed, Node, Primitive, Record
from dragoman.schema.compiling import Compilation


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


class Source(Compilation):
    """Grows line by line. ``now`` is what the lines to come are about."""

    def __init__(self, title: str) -> None:
        # A file of its own, by which its lines are found in a traceback.
        super().__init__(f"<avro codec {next(_numbers)}: {title}>")
        self.scope.update(vars(runtime))
        self.now = NOTHING
        self._about: list[About] = []
        self._indent = 0
        self._locals = itertools.count(1)

    def add(self, line: str) -> None:
        super().add("    " * self._indent + line)
        self._about.append(self.now)

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
        """A name that no other value of these functions has."""
        return f"{hint}{next(self._locals)}"

    def blame(self, trace: TracebackType | None) -> About:
        """What the innermost line of ours in a traceback is about; its path goes through all of them."""
        found = [NOTHING]
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.filename:
                found.append(self._about[trace.tb_lineno - 1])
            trace = trace.tb_next
        steps = [about.path for about in found if about.path]
        if len(steps) > MAX_STEPS:
            steps = [*steps[: MAX_STEPS // 2], "...", *steps[-MAX_STEPS // 2 :]]
        return About(".".join(steps).replace(".[", "["), found[-1].kind)
