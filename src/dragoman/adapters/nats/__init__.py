"""``nats://``: NATS JetStream, one stream per partition."""

from dragoman.adapters.nats.broker import NatsBroker

__all__ = ["NatsBroker"]
