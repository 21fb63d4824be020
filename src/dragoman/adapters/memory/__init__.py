"""``memory://``: the broker for tests and single processes."""

from dragoman.adapters.memory.broker import MemoryBroker
from dragoman.adapters.memory.clock import ManualClock

__all__ = ["ManualClock", "MemoryBroker"]
