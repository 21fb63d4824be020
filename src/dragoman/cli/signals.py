"""Signals that ask a command to end."""

from __future__ import annotations

import asyncio
import signal

_ASKING = (signal.SIGINT, signal.SIGTERM)


def until_ended() -> asyncio.Event:
    """Set at the first signal that asks this process to end. The second one ends it at once."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()

    def told() -> None:
        for number in _ASKING:
            loop.remove_signal_handler(number)
        ended.set()

    for number in _ASKING:
        loop.add_signal_handler(number, told)
    return ended
