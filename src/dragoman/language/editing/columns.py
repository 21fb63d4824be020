"""Lines and columns as an editor counts them: from zero, in the units of an encoding."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.language.tokens import Source

_UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
"""By the encoding's name: how text is written in it, and the bytes of a unit."""


@dataclass(frozen=True, slots=True)
class Columns:
    source: Source
    encoding: str = "utf-16"

    def place(self, offset: int) -> tuple[int, int]:
        """The line and the column of an offset."""
        codec, size = _UNITS[self.encoding]
        line = self.source.place(offset).line - 1
        before = self.source.text[self.source.line_starts[line] : offset]
        return line, len(before.encode(codec, "replace")) // size

    def offset(self, line: int, column: int) -> int:
        """The inverse of ``place``, with both held inside the text."""
        codec, size = _UNITS[self.encoding]
        start = self.source.offset(line + 1, 1)
        end = self.source.text.find("\n", start)
        text = self.source.text[start : end if end >= 0 else len(self.source.text)]
        return start + len(text.encode(codec, "replace")[: size * column].decode(codec, "ignore"))
