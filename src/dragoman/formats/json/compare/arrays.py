"""Arrays: their items one by one, and those beyond the listed ones."""

from __future__ import annotations

from dragoman.formats.json.compare.judge import OTHER_ITEM, Judge, Step
from dragoman.formats.json.compare.rest import compare_rest
from dragoman.formats.json.compare.scalars import bound
from dragoman.formats.json.node import Anything, Array, Contains, Nothing


def arrays(judge: Judge, reader: Array, writer: Array) -> None:
    bound(judge, "MAX_ITEMS", reader.max_items, writer.max_items)
    bound(judge, "MIN_ITEMS", reader.min_items, writer.min_items)
    if reader.unique != writer.unique:
        change, words = ("ADDED", "only") if reader.unique else ("REMOVED", "not only")
        judge.differ(f"UNIQUE_ITEMS_{change}", f"The reader takes {words} items that are all different.")
    common = min(len(reader.prefix), len(writer.prefix))
    for index in range(common):
        judge.need(reader.prefix[index], writer.prefix[index], Step(index))
    for index in range(common, len(writer.prefix)):
        _removed(judge, index, reader, writer)
    for index in range(common, len(reader.prefix)):
        _added(judge, index, reader, writer)
    _items(judge, reader, writer)
    _contains(judge, reader, writer)


def _items(judge: Judge, reader: Array, writer: Array) -> None:
    if reader.tuple or writer.tuple:
        compare_rest(judge, reader.rest, writer.rest, "ITEMS")
        return
    new = reader.rest.place if reader.rest else None
    old = writer.rest.place if writer.rest else None
    if new is not None and old is not None:
        judge.need(new, old, OTHER_ITEM)
    elif new is not None and not isinstance(judge.reader(new), Anything):
        judge.differ(
            "SCHEMA_ADDED", "The reader has a schema for the items, the writer has none.", reader=new
        )
    elif old is not None:
        judge.differ("SCHEMA_REMOVED", "The reader has no schema for the items.", writer=old)
    uncertain = any(rest is not None and not rest.certain for rest in (reader.rest, writer.rest))
    if judge.exact and uncertain:
        judge.differ(
            "UNEVALUATED_CHANGED",
            "unevaluatedItems stands beside other keywords, and the two schemas are not the same.",
        )


def _removed(judge: Judge, index: int, reader: Array, writer: Array) -> None:
    own, rest = writer.prefix[index], reader.rest
    step = Step(index)
    if rest is None or isinstance(judge.reader(rest.place), Anything):
        judge.differ(
            "ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL", f"The reader takes anything as item {index}.", writer=own
        )
    elif isinstance(judge.reader(rest.place), Nothing):
        without = "ITEM_WITH_FALSE_REMOVED" if isinstance(judge.writer(own), Nothing) else "ITEM_REMOVED"
        judge.differ(
            f"{without}_FROM_CLOSED_CONTENT_MODEL",
            f"The reader takes no item {index}.",
            writer=own,
            step=step,
        )
    else:
        covered = "IS_COVERED" if judge.fits(rest.place, own) else "NOT_COVERED"
        judge.differ(
            f"ITEM_REMOVED_{covered}_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            f"The reader takes item {index} by its schema for further items only.",
            writer=own,
            step=step,
        )


def _added(judge: Judge, index: int, reader: Array, writer: Array) -> None:
    own, rest = reader.prefix[index], writer.rest
    step = Step(index)
    if rest is None or isinstance(judge.writer(rest.place), Anything):
        empty = "ITEM_WITH_EMPTY_SCHEMA" if isinstance(judge.reader(own), Anything) else "ITEM"
        judge.differ(
            f"{empty}_ADDED_TO_OPEN_CONTENT_MODEL",
            f"The writer may write anything as item {index}, since its content model is open.",
            reader=own,
            step=step,
        )
    elif isinstance(judge.writer(rest.place), Nothing):
        judge.differ("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL", f"The reader knows an item {index}.", reader=own)
    else:
        covered = "IS_COVERED" if judge.fits(own, rest.place) else "NOT_COVERED"
        judge.differ(
            f"ITEM_ADDED_{covered}_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            f"The writer may write item {index} by its schema for further items.",
            reader=own,
            step=step,
        )


def _contains(judge: Judge, reader: Array, writer: Array) -> None:
    new, old = reader.contains, writer.contains
    if new is None or (new.min == 0 and new.max is None):
        return
    if old is None or not _contains_fits(judge, new, old):
        judge.differ(
            "CONTAINS_NARROWED",
            "The reader asks for certain items in the array that the writer need not write.",
            reader=new.place,
        )


def _contains_fits(judge: Judge, new: Contains, old: Contains) -> bool:
    enough = new.min == 0 or (old.min >= new.min and judge.fits(new.place, old.place))
    if new.max is None:
        return enough
    few = old.max is not None and old.max <= new.max and judge.need_reversed(new.place, old.place)
    return enough and few
