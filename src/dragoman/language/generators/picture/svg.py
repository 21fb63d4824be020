"""Writing SVG: a few shapes, text that fits, arrows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

INK, FAINT, PAPER = "#1f2933", "#7b8794", "#ffffff"
_FONT = "font-family='DejaVu Sans, Helvetica, Arial, sans-serif'"
_WIDTH_OF_LETTER = 0.6


Point = tuple[float, float]


def curve(points: Sequence[Point]) -> str:
    """A path through points that leaves and reaches each of them level."""
    path = f"M {points[0][0]:.1f} {points[0][1]:.1f}"
    for (x, y), (next_x, next_y) in pairwise(points):
        middle = (x + next_x) / 2
        path += f" C {middle:.1f} {y:.1f} {middle:.1f} {next_y:.1f} {next_x:.1f} {next_y:.1f}"
    return path


def lines_of(text: str, size: float, width: float, after: str = " ") -> list[str]:
    """A text in lines that fit, broken after a mark where there is one. No text has no lines."""
    room = int(width / (size * _WIDTH_OF_LETTER))
    lines = []
    while len(text) > room:
        cut = text.rfind(after, 0, room) + 1 or room
        lines.append(text[:cut].strip())
        text = text[cut:].strip()
    return [*lines, text] if text else lines


class Drawing:
    """Collects shapes; ``render`` wraps them into a document with a margin."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def add(self, part: str) -> None:
        self.parts.append(part)

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str, stroke: str = INK,
        radius: float = 4, dashed: bool = False,
    ) -> None:  # fmt: skip
        dash = " stroke-dasharray='5 4'" if dashed else ""
        self.add(
            f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' rx='{radius}' "
            f"fill='{fill}' stroke='{stroke}'{dash}/>"
        )

    def text(
        self, x: float, y: float, text: str, size: float = 12, width: float = 1e9,
        fill: str = INK, anchor: str = "middle", bold: bool = False,
    ) -> None:  # fmt: skip
        """A line of text, cut to fit ``width``; the whole of it is its tooltip."""
        room = int(width / (size * _WIDTH_OF_LETTER))
        shown = text if len(text) <= room else text[: max(room - 1, 1)] + "…"
        weight = " font-weight='bold'" if bold else ""
        title = f"<title>{escape(text)}</title>" if shown != text else ""
        self.add(
            f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' fill='{fill}' text-anchor='{anchor}'{weight}>"
            f"{escape(shown)}{title}</text>"
        )

    def lines(self, x: float, y: float, lines: Sequence[str], size: float, step: float) -> None:
        """Small print, ``step`` from line to line."""
        for number, line in enumerate(lines):
            self.text(x, y + step * number, line, size, fill=FAINT)

    def arrow(self, points: str, color: str = INK, dashed: bool = False) -> None:
        dash = " stroke-dasharray='5 4'" if dashed else ""
        self.add(
            f"<path d='{points}' fill='none' stroke='{color}' stroke-width='1.4'{dash} "
            f"marker-end='url(#arrow)'/>"
        )

    def pipe(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        """A channel: a pipe that lies on its side."""
        bend = height / 4
        self.add(
            f"<path d='M {x + bend:.1f} {y:.1f} H {x + width - bend:.1f} "
            f"A {bend:.1f} {height / 2:.1f} 0 0 1 {x + width - bend:.1f} {y + height:.1f} "
            f"H {x + bend:.1f} A {bend:.1f} {height / 2:.1f} 0 0 1 {x + bend:.1f} {y:.1f} Z' "
            f"fill='{fill}' stroke='{INK}'/>"
            f"<ellipse cx='{x + width - bend:.1f}' cy='{y + height / 2:.1f}' rx='{bend:.1f}' "
            f"ry='{height / 2:.1f}' fill='{PAPER}' fill-opacity='0.6' stroke='{INK}'/>"
        )

    def render(self, width: float, height: float, title: str, margin: float = 28) -> str:
        whole_width, whole_height = width + 2 * margin, height + 2 * margin
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{whole_width:.0f}' height='{whole_height:.0f}' "
            f"viewBox='{-margin:.0f} {-margin:.0f} {whole_width:.0f} {whole_height:.0f}' {_FONT}>\n"
            f"<title>{escape(title)}</title>\n"
            "<defs><marker id='arrow' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='8' "
            f"markerHeight='8' orient='auto-start-reverse'><path d='M 0 0 L 10 5 L 0 10 z' fill='{INK}'/>"
            "</marker></defs>\n"
            f"<rect x='{-margin:.0f}' y='{-margin:.0f}' width='{whole_width:.0f}' "
            f"height='{whole_height:.0f}' fill='{PAPER}'/>\n" + "\n".join(self.parts) + "\n</svg>\n"
        )
