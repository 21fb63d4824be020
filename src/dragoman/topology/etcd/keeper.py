"""Keeps this program's entries in etcd: what is wanted there, under one lease, whatever happens to etcd."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import Any

from dragoman.core.backoff import RECONNECT
from dragoman.core.errors import DiscoveryUnavailable
from dragoman.topology.etcd.gateway import Gateway, LeaseLost, encoded

log = logging.getLogger("dragoman.topology")

BATCH = 100
"""Entries written in one transaction; etcd takes up to 128."""
LEASE_LOST_REST = 0.05


class Keeper:
    """``render`` gives an entry's text for the epoch at which it is written."""

    def __init__(
        self, gateway: Gateway, ttl: float, refresh: float, render: Callable[[str, int], str]
    ) -> None:
        self.ttl = ttl
        self.refresh = refresh
        self.revision = 0
        """The newest revision that was heard of."""
        self.trouble: str | None = None
        self.failed: Callable[[], None] = lambda: None
        self.lease_lost: Callable[[], None] = lambda: None
        self._gateway = gateway
        self._render = render
        self._wanted: set[str] = set()
        self._written: set[str] = set()
        self._unwanted: dict[str, asyncio.Future[None] | None] = {}
        self._each_time: set[str] = set()
        self._lease: str | None = None
        self._due = 0.0
        self._wake = asyncio.Event()

    def want(self, key: str, *, each_time: bool = False) -> None:
        """It shall be there; ``each_time`` the lease is kept alive it is written anew."""
        self._wanted.add(key)
        self._unwanted.pop(key, None)
        if each_time:
            self._each_time.add(key)
        self._wake.set()

    async def unwant(self, key: str, patience: float) -> None:
        """Returns once it is gone, or after a while if nobody can be told: then it goes with its lease."""
        self._wanted.discard(key)
        self._each_time.discard(key)
        gone = self._unwanted[key] = asyncio.get_running_loop().create_future()
        self._wake.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(gone, patience)

    def vanished(self, key: str) -> None:
        """Somebody else took it away."""
        if key in self._wanted and key in self._written:
            self._written.discard(key)
            self._wake.set()

    def lost_all(self) -> None:
        """etcd is another one than before."""
        self._lease = None
        self._written.clear()
        self._wake.set()

    async def run(self) -> None:
        failures = 0
        while True:
            self._wake.clear()
            try:
                await self._round()
                failures, self.trouble = 0, None
                rest = max(0.0, self._due - time.monotonic())
            except LeaseLost:
                log.warning("The lease was lost; all entries are written again.")
                self._lease = None
                self.lease_lost()
                await asyncio.sleep(LEASE_LOST_REST)
                continue
            except Exception as error:
                if not failures:
                    known = isinstance(error, DiscoveryUnavailable)
                    log.warning("etcd cannot be told: %s", error, exc_info=None if known else error)
                failures += 1
                self.trouble = str(error)
                self.failed()
                rest = min(self.refresh, RECONNECT.wait_s(failures))
                await asyncio.sleep(min(rest, RECONNECT.first_s))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._wake.wait()

    async def _round(self) -> None:
        if self._lease is None:
            await self._grant()
        elif time.monotonic() >= self._due:
            await self._keep_alive()
        missing = sorted(self._wanted - self._written, key=lambda key: key not in self._each_time)
        for start in range(0, len(missing), BATCH):
            await self._write(missing[start : start + BATCH])
        while self._unwanted:
            await self._delete(list(self._unwanted)[:BATCH])

    async def _grant(self) -> None:
        answer = self._heard(await self._gateway.call("/v3/lease/grant", {"TTL": max(1, round(self.ttl))}))
        self._lease = answer["ID"]
        self._written.clear()
        self._plan()

    async def _keep_alive(self) -> None:
        """etcd answers for a lease that is gone as well, only without a time to live."""
        answer = await self._gateway.call("/v3/lease/keepalive", {"ID": self._lease})
        result = self._heard(answer.get("result", {}))
        if not int(result.get("TTL", 0)):
            raise LeaseLost("The lease has expired.")
        self._written -= self._each_time
        self._plan()

    def _plan(self) -> None:
        # Many programs that start together shall not all come at the same moment for ever.
        self._due = time.monotonic() + self.refresh * random.uniform(0.85, 1.0)

    async def _write(self, keys: Iterable[str]) -> None:
        keys = [key for key in keys if key in self._wanted]
        puts = [
            {
                "requestPut": {
                    "key": encoded(key),
                    "value": encoded(self._render(key, self.revision)),
                    "lease": self._lease,
                }
            }
            for key in keys
        ]
        self._heard(await self._gateway.call("/v3/kv/txn", {"success": puts}))
        self._written.update(keys)

    async def _delete(self, keys: list[str]) -> None:
        deletions = [{"requestDeleteRange": {"key": encoded(key)}} for key in keys]
        self._heard(await self._gateway.call("/v3/kv/txn", {"success": deletions}))
        for key in keys:
            self._written.discard(key)
            gone = self._unwanted.pop(key, None)
            if gone is not None and not gone.done():
                gone.set_result(None)

    def _heard(self, answer: dict[str, Any]) -> dict[str, Any]:
        self.revision = max(self.revision, int(answer.get("header", {}).get("revision", 0)))
        return answer

    async def revoke(self) -> None:
        """All entries go with the lease."""
        if self._lease is not None:
            with contextlib.suppress(DiscoveryUnavailable):
                await self._gateway.call("/v3/lease/revoke", {"ID": self._lease})
            self._lease = None
