"""Whether two places say the same, references followed. Recursive schemas are the same until they differ."""

from __future__ import annotations

from dragoman.formats.json.compare.judge import Side
from dragoman.formats.json.link import Place
from dragoman.formats.json.model import Model


def same(one: Side, other: Side) -> bool:
    """True only if both are whole schemas of one draft with equal text."""
    if not (one.model.whole(one.node) and other.model.whole(other.node)):
        return False
    return _same(one.model, one.node.place, other.model, other.node.place)


def _same(model: Model, place: Place, other_model: Model, other_place: Place) -> bool:
    seen: set[tuple[Place, Place]] = set()
    pending = [(place, other_place)]
    while pending:
        pair = pending.pop()
        if pair in seen:
            continue
        seen.add(pair)
        if model.draft(pair[0]) is not other_model.draft(pair[1]):
            return False
        text, references = model.canonical(pair[0])
        other_text, other_references = other_model.canonical(pair[1])
        if text != other_text:
            return False
        pending += zip(references, other_references, strict=True)
    return True
