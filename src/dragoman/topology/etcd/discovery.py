"""``etcd://``: endpoints with a time to live, watched by everyone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote, urlsplit

from dragoman.core.ending import end
from dragoman.core.errors import ConfigurationError, EntryRefused
from dragoman.core.loading import redacted
from dragoman.core.options import positive, read_options
from dragoman.topology.discovery import Watcher
from dragoman.topology.endpoint import LONGEST, Endpoint, endpoint_of
from dragoman.topology.etcd.gateway import Access, Gateway
from dragoman.topology.etcd.keeper import Keeper
from dragoman.topology.etcd.vitality import Vitality
from dragoman.topology.etcd.watch import Entry, Watch
from dragoman.topology.signing import Signer, Trust
from dragoman.topology.stamp import LONGEST_STAMP, stamp_ms

log = logging.getLogger("dragoman.topology")

PREFIX = "/pubsub/"
ALIVE = "/pubsub/alive/"
"""Where programs that sign their entries show that they are alive."""
STAMP = "pubsub.stamp"
"""The program's ``stamp_ms`` when it showed that: signed datagrams from before are not news."""
PATIENCE = 3.0
"""Seconds that a withdrawal may take before its sender closes nonetheless."""
BREATHER = 100
REMEMBERED = 8
"""Texts of an own entry that may still come back to us as news."""

_OPTIONS: Mapping[str, Callable[[str], object]] = {
    "ttl": positive,
    "refresh": positive,
    "grace": positive,
    "ca": str,
    "cert": str,
    "key": str,
    "trust": str,
}


class EtcdDiscovery:
    """``etcd://user:password@host:2379,host:2379``, or ``etcds://`` with TLS.

    Options: ``ttl`` (15) seconds that entries outlive their program, ``refresh`` (5), ``grace`` (60) seconds
    that others' entries are kept while etcd is away, ``ca``, ``cert`` and ``key`` files, ``trust``, a JSON
    file of names and public keys: with it only entries that these have signed are believed.
    """

    def __init__(self, url: str, *, signer: Signer | None = None, trust: Trust | None = None) -> None:
        options = read_options(url, _OPTIONS)
        ttl: float = options.get("ttl", 15.0)
        refresh: float = options.get("refresh", ttl / 3)
        if refresh >= ttl:
            raise ConfigurationError(
                f"Entries live {ttl:g} seconds and are kept alive every {refresh:g}.",
                next="Refresh them more often: every third of the time to live.",
                url=redacted(url),
            )
        self.url = redacted(url)
        self.grace: float = options.get("grace", 60.0)
        self._signer = signer
        self._trust = Trust.read(options["trust"]) if "trust" in options else trust
        self.gateway = Gateway(_access(url, options), timeout=max(2.0, min(5.0, refresh)))
        self.keeper = Keeper(self.gateway, ttl, refresh, self._render)
        self.watch = Watch(self.gateway, PREFIX, self)
        self.gateway.switched = self.watch.suspect
        self.keeper.failed = self.watch.suspect
        # Either we were away for long, or etcd has lost its memory: what was seen before may be wrong.
        self.keeper.lease_lost = self.watch.start_anew
        self._own: dict[str, Endpoint] = {}
        self._rendered: dict[str, deque[str]] = {}
        self._framework = ""
        self._watcher: Watcher | None = None
        self._entries: dict[str, tuple[int, Endpoint]] = {}
        self._vitality = Vitality(1.5 * ttl, self._show, self._hide) if self._trust else None
        self.refused = 0
        self._trouble: str | None = "etcd was not asked yet."
        self._grace_ends: asyncio.TimerHandle | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._synced = asyncio.Event()

    async def start(self, framework: str, watcher: Watcher) -> None:
        self._framework, self._watcher = framework, watcher
        if self._signer is not None:
            self.keeper.want(f"{ALIVE}{framework}", each_time=True)
        self._tasks = [
            asyncio.create_task(self.keeper.run(), name="dragoman etcd keeper"),
            asyncio.create_task(self.watch.run(), name="dragoman etcd watch"),
        ]
        if self._vitality is not None:
            self._tasks.append(asyncio.create_task(self._vitality.run(self.keeper.refresh)))

    async def synced(self) -> None:
        """Waits for etcd as long as it takes."""
        await self._synced.wait()

    @property
    def trouble(self) -> str | None:
        return self._trouble or self.keeper.trouble

    def announce(self, endpoint: Endpoint) -> None:
        self._own[endpoint.key] = endpoint
        self.keeper.want(endpoint.key)

    async def withdraw(self, endpoint: Endpoint) -> None:
        if self._own.pop(endpoint.key, None) is not None:
            self._rendered.pop(endpoint.key, None)
            await self.keeper.unwant(endpoint.key, PATIENCE)

    def endpoints(self) -> Sequence[Endpoint]:
        return [
            endpoint
            for _, endpoint in self._entries.values()
            if self._vitality is None or self._vitality.is_alive(endpoint.framework)
        ]

    def latest_stamp(self, framework: str) -> int:
        """From the program's own sign of life, if entries have to be signed."""
        return 0 if self._vitality is None else self._vitality.latest_stamp(framework)

    async def close(self) -> None:
        self._watcher = None
        if self._grace_ends is not None:
            self._grace_ends.cancel()
        await end(*self._tasks)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self.keeper.revoke()
        await self.gateway.close()

    def _render(self, key: str, epoch: int) -> str:
        """An entry as it is written, signed for the moment at which it is."""
        if key.startswith(ALIVE):
            properties = {"type": "alive", "pubsub.framework.uuid": self._framework, STAMP: str(stamp_ms())}
        else:
            properties = self._own[key].properties()
        if self._signer is not None:
            properties = self._signer.sign(key, properties, epoch)
        text = json.dumps(properties, ensure_ascii=False, separators=(",", ":"))
        self._rendered.setdefault(key, deque(maxlen=REMEMBERED)).append(text)
        return text

    async def snapshot(self, entries: dict[str, Entry], revision: int, new_cluster: bool) -> None:
        """What differs from what is known: gone, changed, new."""
        self.keeper.revision = revision if new_cluster else max(revision, self.keeper.revision)
        if new_cluster:
            self._entries_of_another_cluster()
        for key in [key for key in self._entries if key not in entries]:
            self._remove(key, revision)
        for key in self._own:
            if key not in entries:
                self.keeper.vanished(key)
        for count, entry in enumerate(
            sorted(entries.values(), key=lambda each: not each.key.startswith(ALIVE))
        ):
            known = self._entries.get(entry.key)
            if known is None or known[0] != entry.revision:
                await self.put(entry)
            if count % BREATHER == BREATHER - 1:
                await asyncio.sleep(0)
        if not self._synced.is_set():
            self.connected()
            self._synced.set()

    def _entries_of_another_cluster(self) -> None:
        """Its revisions say nothing about those that are known, and it does not know our lease."""
        self.keeper.lost_all()
        self._entries = {key: (-1, endpoint) for key, (_, endpoint) in self._entries.items()}
        if self._trust is not None:
            self._trust.forget_epochs()

    async def put(self, entry: Entry) -> None:
        self.keeper.revision = max(self.keeper.revision, entry.revision)
        if self._framework and entry.key.rpartition("/")[2].startswith(self._framework):
            self._check_own(entry)
            return
        try:
            properties = _parsed(entry)
            if self._trust is not None:
                self._trust.check(entry.key, properties)
            if entry.key.startswith(ALIVE):
                self._heartbeat(properties)
                return
            endpoint = endpoint_of(properties, entry.key)
        except EntryRefused as error:
            self._refuse(entry, error)
            return
        before = self._entries.get(entry.key)
        self._entries[entry.key] = entry.revision, endpoint
        if before is not None and before[1] == endpoint:
            return
        if self._vitality is None:
            self._show([endpoint])
        else:
            self._vitality.add(endpoint)

    def _check_own(self, entry: Entry) -> None:
        """Somebody wrote where we do: if it was not us, we write it again."""
        if entry.key in self._own and entry.value not in self._rendered.get(entry.key, ()):
            log.warning("Somebody else has changed our entry.", extra={"key": entry.key})
            self.keeper.vanished(entry.key)

    def _heartbeat(self, properties: Mapping[str, str]) -> None:
        if self._vitality is not None:
            framework = properties.get("pubsub.framework.uuid", "")
            text = properties.get(STAMP, "")
            good = text.isdecimal() and text.isascii() and len(text) <= LONGEST_STAMP
            self._vitality.heard(framework, int(properties["pubsub.epoch"]), int(text) if good else 0)

    def _refuse(self, entry: Entry, error: EntryRefused) -> None:
        self.refused += 1
        log.warning(
            "An entry is refused.", extra={"key": entry.key, "error_code": error.code, "why": error.what}
        )
        # What stood there before was overwritten by somebody who could not prove who they are.
        if entry.key in self._entries:
            self._remove(entry.key, None)

    async def deleted(self, key: str, revision: int) -> None:
        self.keeper.revision = max(self.keeper.revision, revision)
        if key in self._own or key == f"{ALIVE}{self._framework}":
            self.keeper.vanished(key)
        else:
            self._remove(key, revision)

    def _remove(self, key: str, revision: int | None) -> None:
        if self._trust is not None and revision is not None:
            self._trust.retire(key, revision)
        known = self._entries.pop(key, None)
        if known is None:
            return
        if self._vitality is None:
            self._hide([known[1]])
        else:
            self._vitality.remove(known[1])

    def _show(self, endpoints: Sequence[Endpoint]) -> None:
        if self._watcher is not None:
            for endpoint in endpoints:
                self._watcher.found(endpoint)

    def _hide(self, endpoints: Sequence[Endpoint]) -> None:
        if self._watcher is not None:
            for endpoint in endpoints:
                self._watcher.lost(endpoint)

    def connected(self) -> None:
        if self._trouble is not None:
            log.info("etcd is there.", extra={"url": self.url})
        self._trouble = None
        if self._grace_ends is not None:
            self._grace_ends.cancel()
            self._grace_ends = None
        if self._vitality is not None:
            self._vitality.resume(time.monotonic())

    def disconnected(self, why: str) -> None:
        """What is known is kept, for etcd's absence says nothing about the others."""
        if self._trouble is None:
            log.warning("etcd is gone; what is known is kept for a while.", extra={"why": why})
        self._trouble = why
        if self._vitality is not None:
            self._vitality.suspend()
        if self._grace_ends is None:
            loop = asyncio.get_running_loop()
            self._grace_ends = loop.call_later(self.grace, self._forget_all)

    def _forget_all(self) -> None:
        log.warning("etcd was gone for too long; what was known is forgotten.")
        for key in list(self._entries):
            self._remove(key, None)
        self.watch.start_anew()


def _parsed(entry: Entry) -> Mapping[str, str]:
    try:
        if len(entry.value) > LONGEST:
            raise ValueError("too long")
        found = json.loads(entry.value)
        if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
            raise ValueError("not a flat map of text")
    except (ValueError, RecursionError) as error:
        raise EntryRefused(
            f"The entry is not JSON of text: {error}.", code="topology.entry-shape", key=entry.key
        ) from error
    return found


def _access(url: str, options: Mapping[str, str]) -> Access:
    parts = urlsplit(url)
    user, _, places = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    hosts = tuple(host if ":" in host else f"{host}:2379" for host in places.split(",") if host)
    if not hosts or parts.path.strip("/"):
        raise ConfigurationError(
            f"{redacted(url)!r} names no etcd.", next="Write it as etcd://host:2379,host:2379"
        )
    return Access(
        hosts,
        unquote(name),
        unquote(password),
        parts.scheme == "etcds",
        options.get("ca"),
        options.get("cert"),
        options.get("key"),
    )
