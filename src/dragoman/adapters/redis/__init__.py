"""``redis://``: Redis Streams, one stream per partition."""

from dragoman.adapters.redis.broker import RedisBroker

__all__ = ["RedisBroker"]
