"""The fenced blocks of a Markdown page, and how each is run.

``python`` blocks of a page share one namespace, as a reader who follows the page has one session; ``await``
at the top works. ``sh`` blocks are run by bash and must succeed; with ``background`` they stay up until the
page ends, once the address given as ``ready=host:port`` answers. Any block with ``file=NAME`` is written to
that file. Other languages are only shown. A block after the comment ``<!-- shown only: reason -->`` is not
run. Well-known ports are replaced by free ones.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.services.ports import free_port

_FENCE = re.compile(
    r"(?P<comment><!-- shown only: [^>]+ -->\s*\n)?"
    r"^(?P<indent> *)```(?P<info>[^\n`]+)\n(?P<body>.*?)^(?P=indent)```\s*$",
    re.MULTILINE | re.DOTALL,
)
_PORTS = re.compile(r"(?<!\d)(?:80[89]\d|818\d|9092)(?!\d)")


@dataclass(frozen=True)
class Snippet:
    page: str
    line: int
    language: str
    attributes: dict[str, str]
    body: str
    shown_only: bool

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def snippets(page: Path) -> Iterator[Snippet]:
    text = page.read_text()
    ports: defaultdict[str, str] = defaultdict(lambda: str(free_port()))

    def with_free_ports(text: str) -> str:
        return _PORTS.sub(lambda port: ports[port[0]], text)

    for match in _FENCE.finditer(text):
        language, *words = match["info"].split()
        attributes = {name: value for name, _, value in (word.partition("=") for word in words)}
        indent = len(match["indent"])
        body = "\n".join(line[indent:] for line in match["body"].splitlines()) + "\n"
        attributes = {name: with_free_ports(value) for name, value in attributes.items()}
        line = text.count("\n", 0, match.start("info")) + 1
        yield Snippet(
            page.name, line, language, attributes, with_free_ports(body), match["comment"] is not None
        )
