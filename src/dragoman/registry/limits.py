"""What the registry accepts at most, so that no request can exhaust it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.core.errors import InvalidSchema
from dragoman.core.schema import Reference

_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Limits:
    """Every limit is a number a user may raise."""

    body: int = 8 * 1024 * 1024
    """Bytes of a request."""
    schema: int = 4 * 1024 * 1024
    """Characters of a schema text."""
    depth: int = 4000
    """Brackets within brackets in a schema text."""
    references: int = 200
    """References of one schema."""
    reference_path: int = 50
    """Schemas that refer to schemas that refer to schemas."""

    def check_schema(self, text: str, references: Sequence[Reference]) -> None:
        if len(text) > self.schema:
            raise InvalidSchema(
                f"The schema has {len(text)} characters, {self.schema} are allowed.",
                code="registry.schema-too-large",
            )
        if "\0" in text:
            raise InvalidSchema("The schema contains a NUL character.")
        if len(references) > self.references:
            raise InvalidSchema(
                f"The schema has {len(references)} references, {self.references} are allowed."
            )
        if len({each.name for each in references}) < len(references):
            raise InvalidSchema("Two references of the schema have the same name.")
        if depth_of(text) > self.depth:
            raise InvalidSchema(f"The schema is nested deeper than {self.depth} levels.")

    def check_reference_path(self, path: Sequence[tuple[str, int]], step: tuple[str, int]) -> None:
        if step in path:
            raise InvalidSchema(f"The references form a circle through '{step[0]}' version {step[1]}.")
        if len(path) >= self.reference_path:
            raise InvalidSchema(f"The references lead through more than {self.reference_path} schemas.")


def depth_of(text: str) -> int:
    """How deep brackets are nested, not counting those inside quotes."""
    depth = deepest = 0
    for mark in _TOKENS.findall(text):
        if mark in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in "}]":
            depth -= 1
    return deepest
