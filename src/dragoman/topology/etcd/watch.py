"""Follows all entries in etcd: a snapshot, then changes; resumed where it broke off, or compared anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from dragoman.core.backoff import RECONNECT
from dragoman.core.ending import is_ending
from dragoman.core.errors import DiscoveryUnavailable
from dragoman.topology.etcd.gateway import Gateway, after, decoded, encoded

log = logging.getLogger("dragoman.topology")

PAGE = 1000


class Entry(NamedTuple):
    key: str
    value: str
    revision: int


class Follower(Protocol):
    """Who is told, by one task."""

    async def snapshot(self, entries: dict[str, Entry], revision: int, new_cluster: bool) -> None: ...

    async def put(self, entry: Entry) -> None: ...

    async def deleted(self, key: str, revision: int) -> None: ...

    def connected(self) -> None: ...

    def disconnected(self, why: str) -> None: ...


class Compacted(Exception):
    """The changes since our revision cannot be had: all entries have to be compared."""


class Watch:
    def __init__(self, gateway: Gateway, prefix: str, follower: Follower) -> None:
        self._gateway = gateway
        self._prefix = prefix
        self._follower = follower
        self._cluster = ""
        self._last = 0
        self._anew = True
        self._stream: asyncio.Task[None] | None = None
        self._is_connected = False
        self.resumed = 0
        self.snapshots = 0

    def suspect(self) -> None:
        """Something else failed: the connection may be dead without telling. Make a new one."""
        if self._stream is not None and self._is_connected:
            self._stream.cancel()

    def start_anew(self) -> None:
        """What is known may be wrong: the next thing is a snapshot."""
        self._anew = True
        self.suspect()

    async def run(self) -> None:
        failures = 0
        while True:
            self._stream = asyncio.create_task(self._follow())
            try:
                await self._stream
            except Compacted:
                log.info("Changes cannot be had from etcd any more; all entries are compared.")
                self._anew = True
                continue
            except DiscoveryUnavailable as error:
                failures = 0 if self._is_connected else failures + 1
                if failures:
                    # It was away, and may come back as another one, without the memory of our revision.
                    self._anew = True
                self._follower.disconnected(str(error))
            except asyncio.CancelledError:
                if not self._stream.cancelled() or is_ending():
                    self._stream.cancel()
                    raise
                failures = 0
                self._follower.disconnected("Another connection to etcd has failed.")
            except Exception as error:
                failures += 1
                self._anew = True
                log.exception("Following etcd failed, it is tried again.")
                self._follower.disconnected(repr(error))
            finally:
                self._is_connected = False
            # That the connection broke is a failure, too, and comes before those of making a new one.
            await asyncio.sleep(RECONNECT.wait_s(failures + 1))

    async def _follow(self) -> None:
        """Until something breaks, and something does."""
        await self._catch_up()
        request = {
            "create_request": {
                "key": encoded(self._prefix),
                "range_end": after(self._prefix),
                "start_revision": str(self._last + 1),
            }
        }
        async with self._gateway.stream("/v3/watch", request) as results:
            async for result in results:
                await self._result(result)
        raise DiscoveryUnavailable("etcd ended the watch.")

    async def _catch_up(self) -> None:
        """A snapshot, unless the changes since the last one can still be had from the same cluster."""
        probe = await self._range({"key": encoded(self._prefix), "count_only": True})
        header = probe["header"]
        cluster, revision = header.get("cluster_id", ""), int(header.get("revision", 0))
        new_cluster = bool(self._cluster) and (cluster != self._cluster or revision < self._last)
        if self._anew or new_cluster:
            self._anew = False
            entries, revision = await self._all()
            self.snapshots += 1
            await self._follower.snapshot(entries, revision, new_cluster)
            self._last = revision
        else:
            self.resumed += 1
        self._cluster = cluster

    async def _all(self) -> tuple[dict[str, Entry], int]:
        """Page by page, all of one revision."""
        found: dict[str, Entry] = {}
        start, revision = encoded(self._prefix), 0
        while True:
            body: dict[str, Any] = {"key": start, "range_end": after(self._prefix), "limit": str(PAGE)}
            if revision:
                body["revision"] = str(revision)
            answer = await self._range(body)
            revision = revision or int(answer["header"]["revision"])
            entries = [_entry(each) for each in answer.get("kvs", ())]
            found.update((each.key, each) for each in entries)
            if not answer.get("more"):
                return found, revision
            start = encoded(entries[-1].key + "\0")

    async def _range(self, body: dict[str, Any]) -> dict[str, Any]:
        body.setdefault("range_end", after(self._prefix))
        return await self._gateway.call("/v3/kv/range", body)

    async def _result(self, result: dict[str, Any]) -> None:
        if result.get("compact_revision"):
            raise Compacted
        if result.get("canceled"):
            raise DiscoveryUnavailable(f"etcd ended the watch: {result.get('cancel_reason', '')}")
        if result.get("created"):
            if self._anew:
                raise Compacted
            self._is_connected = True
            self._follower.connected()
        for deleted, entry in _events(result):
            if deleted:
                await self._follower.deleted(entry.key, entry.revision)
            else:
                await self._follower.put(entry)
            self._last = max(self._last, entry.revision)


def _events(result: dict[str, Any]) -> Iterator[tuple[bool, Entry]]:
    for event in result.get("events", ()):
        yield event.get("type") == "DELETE", _entry(event["kv"])


def _entry(pair: dict[str, Any]) -> Entry:
    return Entry(decoded(pair["key"]), decoded(pair.get("value", "")), int(pair["mod_revision"]))
