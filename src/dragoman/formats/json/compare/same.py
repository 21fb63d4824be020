"""Whether two places say the same, references followed. Recursive schemas are the same until they differ."""

from __future__ import annotations

from dragoman.formats.json.compare.judge import Side
from dragoman.formats.json.link import Place
from dragoman.formats.json.model import Model

_Pair = tuple[Model, Place, Model, Place]


class Sameness:
    """Remembers what it has found, so that a long chain of references is walked once."""

    def __init__(self) -> None:
        self._known: dict[_Pair, bool] = {}

    def same(self, one: Side, other: Side) -> bool:
        """True only if both are whole schemas of one draft with equal text."""
        if not (one.model.whole(one.node) and other.model.whole(other.node)):
            return False
        return self._walk((one.model, one.node.place, other.model, other.node.place))

    def _walk(self, start: _Pair) -> bool:
        """Visit all pairs that must be the same; one that is not refutes those that led to it."""
        led_from: dict[_Pair, _Pair | None] = {start: None}
        pending = [start]
        while pending:
            pair = pending.pop()
            known = self._known.get(pair)
            if known is None:
                known = _alike(pair)
                if known:
                    pending += _next(pair, led_from)
            if not known:
                self._refute(pair, led_from)
                return False
        self._known.update(dict.fromkeys(led_from, True))
        return True

    def _refute(self, pair: _Pair | None, led_from: dict[_Pair, _Pair | None]) -> None:
        while pair is not None:
            self._known[pair] = False
            pair = led_from[pair]


def _alike(pair: _Pair) -> bool:
    model, place, other, other_place = pair
    return (
        model.draft(place) is other.draft(other_place)
        and model.canonical(place)[0] == other.canonical(other_place)[0]
    )


def _next(pair: _Pair, led_from: dict[_Pair, _Pair | None]) -> list[_Pair]:
    """The pairs of references, as far as they are new."""
    model, place, other, other_place = pair
    found: list[_Pair] = []
    references = zip(model.canonical(place)[1], other.canonical(other_place)[1], strict=True)
    for target, other_target in references:
        inner = (model, target, other, other_target)
        if inner not in led_from:
            led_from[inner] = pair
            found.append(inner)
    return found
