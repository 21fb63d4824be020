"""Which programs are alive by their own signed word, whoever may keep their leases."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from dragoman.topology.endpoint import Endpoint

Tell = Callable[[Sequence[Endpoint]], None]


class Life:
    """One program: when it was last heard, and what it has announced."""

    __slots__ = ("endpoints", "epoch", "heard_at", "stamp_ms")

    def __init__(self) -> None:
        self.epoch = -1
        self.stamp_ms = 0
        self.heard_at: float | None = None
        self.endpoints: dict[str, Endpoint] = {}


class Vitality:
    """A program is dead when nothing new was signed by it for ``limit`` seconds of ours: its clock does not
    matter, and an old word that is repeated is nothing new."""

    def __init__(self, limit: float, show: Tell, hide: Tell) -> None:
        self._limit = limit
        self._show = show
        self._hide = hide
        self._lives: dict[str, Life] = {}
        self._suspended = False

    def is_alive(self, framework: str) -> bool:
        life = self._lives.get(framework)
        return life is not None and life.heard_at is not None

    def latest_stamp(self, framework: str) -> int:
        life = self._lives.get(framework)
        return 0 if life is None else life.stamp_ms

    def heard(self, framework: str, epoch: int, stamp_ms: int = 0) -> None:
        life = self._lives.setdefault(framework, Life())
        if epoch <= life.epoch:
            return
        revived = life.heard_at is None
        life.epoch, life.heard_at = epoch, time.monotonic()
        life.stamp_ms = max(life.stamp_ms, stamp_ms)
        if revived:
            self._show(list(life.endpoints.values()))

    def add(self, endpoint: Endpoint) -> None:
        life = self._lives.setdefault(endpoint.framework, Life())
        life.endpoints[endpoint.key] = endpoint
        if life.heard_at is not None:
            self._show([endpoint])

    def remove(self, endpoint: Endpoint) -> None:
        life = self._lives.get(endpoint.framework)
        if life is None or life.endpoints.pop(endpoint.key, None) is None:
            return
        if life.heard_at is not None:
            self._hide([endpoint])

    def suspend(self) -> None:
        """Nobody can be heard: silence means nothing."""
        self._suspended = True

    def resume(self, now: float) -> None:
        if self._suspended:
            self._suspended = False
            for life in self._lives.values():
                if life.heard_at is not None:
                    life.heard_at = now

    def check(self, now: float) -> None:
        if self._suspended:
            return
        for framework, life in list(self._lives.items()):
            if life.heard_at is not None and now - life.heard_at > self._limit:
                life.heard_at = None
                self._hide(list(life.endpoints.values()))
            if life.heard_at is None and not life.endpoints:
                del self._lives[framework]

    async def run(self, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            self.check(time.monotonic())
