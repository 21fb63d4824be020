"""Maximum bipartite matching."""

from __future__ import annotations

from collections.abc import Sequence


def largest_matching(size: int, candidates: Sequence[Sequence[int]]) -> int:
    """How many of ``size`` left vertices can each have a right one of their own, out of their candidates."""
    taken: dict[int, int] = {}
    return sum(_place(left, candidates, taken) for left in range(size))


def _place(left: int, candidates: Sequence[Sequence[int]], taken: dict[int, int]) -> bool:
    """Search breadth-first for an augmenting path, so that long chains need no recursion."""
    reached_from: dict[int, int] = {}
    frontier = [left]
    while frontier:
        current = frontier.pop(0)
        for right in candidates[current]:
            if right in reached_from:
                continue
            reached_from[right] = current
            if right not in taken:
                _augment(right, left, reached_from, taken)
                return True
            frontier.append(taken[right])
    return False


def _augment(right: int, start: int, reached_from: dict[int, int], taken: dict[int, int]) -> None:
    while True:
        left = reached_from[right]
        freed = next((vertex for vertex, owner in taken.items() if owner == left), None)
        if freed is not None and left != start:
            del taken[freed]
        taken[right] = left
        if left == start or freed is None:
            return
        right = freed
