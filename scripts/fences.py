"""For mkdocs: what tests read behind a fence's language, readers see as a file's title, or not at all."""

from __future__ import annotations

import re
from typing import Any

_FENCE = re.compile(r"^( *```)(\w+) +([^\n`]+)$", re.MULTILINE)
_FILE = re.compile(r"(?:^| )file=(\S+)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return _FENCE.sub(_plain, markdown)


def _plain(fence: re.Match[str]) -> str:
    name = _FILE.search(fence[3])
    return f"{fence[1]}{fence[2]}" + (f' title="{name[1]}"' if name else "")
