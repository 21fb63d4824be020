"""What the registry accepts at most, so that no request can exhaust it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dragoman.core.characters import check_characters
from dragoman.core.errors import InvalidSchema
from dragoman.core.schema import Reference
from dragoman.core.settings import check_least, setting

_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\]]', re.DOTALL)
"""A string that is never closed ends with the text: to look for its end from each quote takes for ever."""
_EXPLOSIVE = re.compile(r"\((?:\?:)?(?:[^()\[\]\\]|\\.|\[(?:[^\]\\]|\\.)*\])[*+]\)[*+]")
"""A group of nothing but a repetition, itself repeated, such as ``(a+)+`` or ``([a-z]*)*``."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The section ``registry_limits`` of the settings."""

    body: int = setting(8 * 1024 * 1024, "Bytes of a request.", least=1)
    bundle: int = setting(256 * 1024 * 1024, "Bytes of an export that an administrator brings in.", least=1)
    schema: int = setting(4 * 1024 * 1024, "Characters of a schema.", least=1)
    depth: int = setting(4000, "Brackets within brackets in a schema.", least=1)
    references: int = setting(200, "References of one schema.", least=0)
    reference_path: int = setting(50, "Schemas that refer to schemas that refer to schemas.", least=0)
    patterns: int = setting(200, "Regular expressions in one JSON schema.", least=0)
    pattern: int = setting(1000, "Characters of a regular expression.", least=1)
    logins: int = setting(
        20, "Wrong passwords in a minute from one IPv4 address or one IPv6 network of 64 bits.", least=1
    )
    logins_site: int = setting(100, "Wrong passwords in a minute from one IPv6 network of 48 bits.", least=1)
    logins_waiting: int = setting(200, "Passwords that wait to be checked, from all networks.", least=0)

    def __post_init__(self) -> None:
        check_least(self)

    def check_schema(self, type: str, text: str, references: Sequence[Reference]) -> None:
        if len(text) > self.schema:
            raise InvalidSchema(
                f"The schema has {len(text)} characters, {self.schema} are allowed.",
                code="registry.schema-too-large",
            )
        check_characters(text)
        if "\0" in text:
            raise InvalidSchema("The schema contains the character NUL, which no database can store.")
        if len(references) > self.references:
            raise InvalidSchema(
                f"The schema has {len(references)} references, {self.references} are allowed."
            )
        if len({each.name for each in references}) < len(references):
            raise InvalidSchema("Two references of the schema have the same name.")
        if depth_of(text) > self.depth:
            raise InvalidSchema(f"The schema is nested deeper than {self.depth} levels.")
        if type == "JSON" and '"pattern' in text:
            self._check_patterns(text)

    def _check_patterns(self, text: str) -> None:
        """The registry never runs a user's pattern, but its readers will."""
        try:
            found = list(_patterns_in(json.loads(text)))
        except (ValueError, RecursionError):
            return
        if len(found) > self.patterns:
            raise InvalidSchema(f"The schema has {len(found)} patterns, {self.patterns} are allowed.")
        for pattern in found:
            if len(pattern) > self.pattern:
                raise InvalidSchema(f"A pattern has {len(pattern)} characters, {self.pattern} are allowed.")
            if _EXPLOSIVE.search(pattern):
                raise InvalidSchema(
                    f"The pattern {pattern!r} repeats a repetition, which can take for ever to match.",
                    next="Write it without a repetition directly inside another, such as a+ for (a+)+.",
                )

    def check_reference_path(self, path: Sequence[tuple[str, int]], step: tuple[str, int]) -> None:
        if step in path:
            raise InvalidSchema(f"The references form a circle through '{step[0]}' version {step[1]}.")
        if len(path) >= self.reference_path:
            raise InvalidSchema(f"The references lead through more than {self.reference_path} schemas.")


def _patterns_in(root: object) -> Iterator[str]:
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if isinstance(value.get("pattern"), str):
                yield value["pattern"]
            named = value.get("patternProperties")
            if isinstance(named, dict):
                yield from named
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


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
