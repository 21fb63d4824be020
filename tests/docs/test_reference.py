"""The reference pages say what the code says."""

from __future__ import annotations

import pytest
from scripts.reference import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_as_the_code_would_write_it(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), "Run: python scripts/reference.py"


def test_there_are_no_other_pages() -> None:
    assert {path.name for path in FOLDER.glob("*.md")} == set(PAGES)
