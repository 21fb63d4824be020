"""Where things stand: nodes in columns along the edges, few crossings, no overlaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Size = tuple[float, float]
Edge = tuple[str, str]
_SWEEPS = 8
_STATION = (0.0, 8.0)


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    width: float
    height: float
    column: int

    @property
    def middle(self) -> float:
        return self.y + self.height / 2

    @property
    def right(self) -> float:
        return self.x + self.width


@dataclass(frozen=True, slots=True)
class Layout:
    """``ways`` are, for an edge over several columns, the free places it goes through on its way."""

    boxes: Mapping[str, Box]
    ways: Mapping[Edge, tuple[Box, ...]]
    width: float
    height: float


def arrange(
    sizes: Mapping[str, Size], edges: Sequence[Edge], first: Mapping[str, int], gaps: Size = (110, 26)
) -> Layout:
    """Place nodes. ``first`` is the column of a node that no edge leads to, else 0; ``gaps`` are those
    between columns and between rows.
    """
    columns = _columns(sizes, edges, first)
    sizes, edges, stations = _with_stations(sizes, edges, columns)
    rows: dict[int, list[str]] = {}
    for node in sizes:
        rows.setdefault(columns[node], []).append(node)
    near = _neighbours(sizes, edges)
    _reorder(rows, near)
    tops = _spread(rows, near, sizes, gaps[1])
    boxes: dict[str, Box] = {}
    x = 0.0
    for column in sorted(rows):
        widest = max(sizes[node][0] for node in rows[column])
        for node in rows[column]:
            width, height = sizes[node] if sizes[node] != _STATION else (widest, _STATION[1])
            boxes[node] = Box(x + (widest - width) / 2, tops[node], width, height, column)
        x += widest + gaps[0]
    height = max((box.y + box.height for box in boxes.values()), default=0.0)
    ways = {edge: tuple(boxes.pop(node) for node in nodes) for edge, nodes in stations.items()}
    return Layout(boxes, ways, max(x - gaps[0], 0.0), height)


def _with_stations(
    sizes: Mapping[str, Size], edges: Sequence[Edge], columns: dict[str, int]
) -> tuple[dict[str, Size], list[Edge], dict[Edge, list[str]]]:
    """An edge over several columns gets a place of its own in each column between."""
    all_sizes, all_edges = dict(sizes), list[Edge]()
    stations: dict[Edge, list[str]] = {}
    for source, target in dict.fromkeys(edges):
        chain = [source]
        for column in range(columns[source] + 1, columns[target]):
            station = f"{source} > {target} > {column}"
            all_sizes[station] = _STATION
            columns[station] = column
            chain.append(station)
        if len(chain) > 1:
            stations[source, target] = chain[1:]
        chain.append(target)
        all_edges += pairwise(chain)
    return all_sizes, all_edges, stations


def _columns(sizes: Mapping[str, Size], edges: Sequence[Edge], first: Mapping[str, int]) -> dict[str, int]:
    """The longest way to each node, over edges that close no circle."""
    forward = _without_circles(sizes, edges)
    waiting = dict.fromkeys(sizes, 0)
    for targets in forward.values():
        for target in targets:
            waiting[target] += 1
    columns = {node: first.get(node, 0) for node in sizes}
    ready = [node for node, count in waiting.items() if count == 0]
    while ready:
        node = ready.pop()
        for target in forward[node]:
            columns[target] = max(columns[target], columns[node] + 1)
            waiting[target] -= 1
            if waiting[target] == 0:
                ready.append(target)
    return columns


def _without_circles(sizes: Mapping[str, Size], edges: Sequence[Edge]) -> dict[str, list[str]]:
    targets: dict[str, list[str]] = {node: [] for node in sizes}
    for source, target in dict.fromkeys(edges):
        targets[source].append(target)
    kept: dict[str, list[str]] = {node: [] for node in sizes}
    state: dict[str, int] = {}
    for root in sizes:
        stack = [(root, iter(targets[root]))] if root not in state else []
        state.setdefault(root, 1)
        while stack:
            node, left = stack[-1]
            target = next(left, "")
            if not target:
                state[node] = 2
                stack.pop()
            elif state.get(target) != 1:
                kept[node].append(target)
                if target not in state:
                    state[target] = 1
                    stack.append((target, iter(targets[target])))
    return kept


def _neighbours(sizes: Mapping[str, Size], edges: Sequence[Edge]) -> dict[str, list[str]]:
    near: dict[str, list[str]] = {node: [] for node in sizes}
    for source, target in edges:
        near[source].append(target)
        near[target].append(source)
    return near


def _reorder(rows: dict[int, list[str]], near: Mapping[str, list[str]]) -> None:
    """Sort each column by the mean place of its neighbours, back and forth a few times."""
    place = {node: index / max(len(row), 1) for row in rows.values() for index, node in enumerate(row)}
    for sweep in range(_SWEEPS):
        for column in sorted(rows, reverse=bool(sweep % 2)):
            row = rows[column]
            means = {n: sum(place[m] for m in near[n]) / len(near[n]) if near[n] else place[n] for n in row}
            row.sort(key=lambda node: means[node])
            place.update({node: (index + 0.5) / len(row) for index, node in enumerate(row)})


def _spread(
    rows: Mapping[int, list[str]], near: Mapping[str, list[str]], sizes: Mapping[str, Size], gap: float
) -> dict[str, float]:
    """The top of each node: near the middle of its neighbours, below the node before it."""
    tops: dict[str, float] = {}
    for row in rows.values():
        y = 0.0
        for node in row:
            tops[node] = y
            y += sizes[node][1] + gap
    for sweep in range(_SWEEPS):
        for column in sorted(rows, reverse=bool(sweep % 2)):
            _settle(rows[column], near, sizes, gap, tops)
    highest = min(tops.values(), default=0.0)
    return {node: top - highest for node, top in tops.items()}


def _settle(
    row: list[str],
    near: Mapping[str, list[str]],
    sizes: Mapping[str, Size],
    gap: float,
    tops: dict[str, float],
) -> None:
    def wish(node: str) -> float:
        others = near[node]
        if not others:
            return tops[node]
        middle = sum(tops[other] + sizes[other][1] / 2 for other in others) / len(others)
        return middle - sizes[node][1] / 2

    wishes = [wish(node) for node in row]
    placed: list[float] = []
    floor = float("-inf")
    for node, wished in zip(row, wishes, strict=True):
        placed.append(max(wished, floor))
        floor = placed[-1] + sizes[node][1] + gap
    # What was pushed down is moved up again as a whole, so that the column stays in the middle.
    shift = sum(place - wished for place, wished in zip(placed, wishes, strict=True)) / len(row)
    tops.update({node: place - shift for node, place in zip(row, placed, strict=True)})
