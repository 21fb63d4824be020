"""The page about patterns leaves none out that a model can name."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.language.words import CHANNEL_TYPES, ENDPOINT_TYPES, MESSAGE_TYPES

PAGE = Path(__file__).parents[2] / "docs" / "patterns.md"


@pytest.mark.parametrize("word", (*CHANNEL_TYPES, *MESSAGE_TYPES, *ENDPOINT_TYPES))
def test_every_pattern_of_the_language_has_a_line(word: str) -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    assert any(f"`{word}`" in line for line in rows)
