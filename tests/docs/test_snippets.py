"""Every snippet of README and the documentation does what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.snippets import snippets

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = {"python", "sh"}


def runnable(page: Path) -> bool:
    return any(not snippet.shown_only and snippet.language in RUN for snippet in snippets(page))


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if page.exists() and runnable(page)], ids=page_name)
def test_page_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    """In a process of its own, since a page may start Spark where the reader stands."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.follow", str(page)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
