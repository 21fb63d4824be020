"""Whole characters: a schema with half of a surrogate pair could be parsed, but never stored or sent."""

from __future__ import annotations

import re
from collections.abc import Callable

from dragoman.core.errors import InvalidSchema

_HALF_OR_PAIR = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def check_characters(text: str) -> None:
    """Raises ``InvalidSchema`` with the place."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        before = text[: error.start]
        raise _refusal(line=before.count("\n") + 1, column=error.start - before.rfind("\n")) from None


def check_json_characters(text: str, written: Callable[[], str]) -> None:
    """For JSON, which may escape it. ``written`` writes the value of the text without escapes."""
    if not _HALF_OR_PAIR.search(text):
        return
    check_characters(text)
    try:
        written().encode()
    except UnicodeEncodeError:
        raise _refusal() from None


def _refusal(**where: int) -> InvalidSchema:
    return InvalidSchema(
        "The schema contains half of a character, such as \\ud800 without the other half.",
        code="schema.invalid.characters",
        next="Write the whole character, or leave it out.",
        **where,
    )
