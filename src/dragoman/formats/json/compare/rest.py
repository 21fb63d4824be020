"""What holds for members that are not listed: other properties, further items."""

from __future__ import annotations

from dragoman.formats.json.compare.judge import OTHER_ITEM, OTHER_PROPERTY, Judge
from dragoman.formats.json.node import Anything, Nothing, Rest

_WORDS = {"PROPERTIES": "properties", "ITEMS": "items"}


def compare_rest(judge: Judge, reader: Rest | None, writer: Rest | None, what: str) -> None:
    """``what`` is ``PROPERTIES`` or ``ITEMS``."""
    new = judge.reader(reader.place) if reader else None
    old = judge.writer(writer.place) if writer else None
    rule = f"{_prefix(reader, writer)}_{what}"
    words = _WORDS[what]
    open_new, open_old = new is None or isinstance(new, Anything), old is None or isinstance(old, Anything)
    if open_new and open_old:
        return
    places = (reader.place if reader else None, writer.place if writer else None)
    if open_new:
        change = "ADDED" if isinstance(old, Nothing) else "EXTENDED"
        judge.differ(f"{rule}_{change}", f"The reader takes any other {words}.", *places)
    elif isinstance(new, Nothing):
        if not isinstance(old, Nothing):
            judge.differ(
                f"{rule}_REMOVED", f"The reader takes no other {words}, the writer writes them.", *places
            )
    elif open_old:
        judge.differ(
            f"{rule}_NARROWED",
            f"The writer may write any other {words}, the reader takes those of one schema.",
            *places,
        )
    elif isinstance(old, Nothing):
        judge.differ(f"{rule}_ADDED", f"The reader takes other {words} too.", *places)
    elif reader is not None and writer is not None:
        judge.need(reader.place, writer.place, OTHER_PROPERTY if what == "PROPERTIES" else OTHER_ITEM)
    if judge.exact:
        _check_certain(judge, reader, writer)


def _check_certain(judge: Judge, reader: Rest | None, writer: Rest | None) -> None:
    """What is unevaluated beside other keywords cannot be told from the schema of the rest alone."""
    for rest in (reader, writer):
        if rest is not None and not rest.certain:
            judge.differ(
                "UNEVALUATED_CHANGED",
                f"{rest.keyword} stands beside other keywords, and the two schemas are not the same.",
            )
            return


def _prefix(reader: Rest | None, writer: Rest | None) -> str:
    keywords = [rest.keyword for rest in (reader, writer) if rest is not None]
    return "UNEVALUATED" if all(each.startswith("unevaluated") for each in keywords) else "ADDITIONAL"
