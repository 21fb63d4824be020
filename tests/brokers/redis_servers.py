"""Redis servers with settings of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.services.fixtures import missing
from tests.services.redis import Redis
from tests.services.server import ServiceUnavailable


class OwnRedis(Redis):
    """``words`` are added to the command line: ``--name value ...``."""

    words: tuple[str, ...] = ()

    def command(self) -> Sequence[str]:
        return (*super().command(), *self.words)

    def answers(self) -> bool:
        return self.accepts()


@contextlib.contextmanager
def own_redis(folder: Path, *words: str) -> Iterator[OwnRedis]:
    """``{port}`` in a word is the server's port."""
    try:
        OwnRedis.executable()
    except ServiceUnavailable as unavailable:
        missing(str(unavailable))
    server = OwnRedis(folder / "redis")
    server.words = tuple(word.format(port=server.port) for word in words)
    server.start()
    try:
        yield server
    finally:
        server.kill()
