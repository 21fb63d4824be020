"""``memory://``: the broker for tests and single processes."""

from dragoman.adapters.memory.broker import MemoryBroker

__all__ = ["MemoryBroker"]
