"""The order in which one program has signed what it sends, by a clock of its own that never goes back."""

from __future__ import annotations

import time

LONGEST_STAMP = 19
"""Digits of a stamp that is written as text."""


def stamp_ms() -> int:
    """Milliseconds, comparable with other stamps of this program only. The time of day does not matter."""
    return time.monotonic_ns() // 1_000_000
