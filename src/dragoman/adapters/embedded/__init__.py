"""``embedded://``: the durable broker that needs no server."""

from dragoman.adapters.embedded.broker import EmbeddedBroker

__all__ = ["EmbeddedBroker"]
