"""The documentation can be built, and shows what it should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from scripts.fences import on_page_markdown

ROOT = Path(__file__).parents[2]


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {str(page.relative_to(tmp_path)): page.read_text() for page in tmp_path.rglob("*.html")}
    assert "tutorial/index.html" in pages
    assert [name for name, text in pages.items() if "```" in text] == []


def test_what_only_tests_read_is_not_shown() -> None:
    assert on_page_markdown("```sh background ready=127.0.0.1:80\nls\n```\n") == "```sh\nls\n```\n"
    assert on_page_markdown("```toml file=a/b.toml\n```\n") == '```toml title="a/b.toml"\n```\n'
    assert on_page_markdown("```\n```python\n") == "```\n```python\n"


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "adr"
    listed = (folder / "README.md").read_text()
    records = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert records
    assert [name for name in records if f"({name})" not in listed] == []
