"""``file://``: endpoints that are written down, read again when the file changes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from pathlib import Path

from dragoman.core.ending import end
from dragoman.core.errors import ConfigurationError, EntryRefused
from dragoman.core.loading import path_of
from dragoman.core.options import positive, read_options
from dragoman.topology.discovery import Watcher
from dragoman.topology.endpoint import Endpoint, endpoint_of

log = logging.getLogger("dragoman.topology")


class StaticDiscovery:
    """A JSON list of entries, each a flat map as in etcd; without ``pubsub.framework.uuid`` it is ``static``.

    Option: ``poll`` (1), seconds between two looks at the file. What this program announces is not written.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._poll: float = read_options(url, {"poll": positive}).get("poll", 1.0)
        self._path = Path(path_of(url))
        self._known: dict[str, Endpoint] = {}
        self._seen: tuple[int, int, int] | None = None
        self._watcher: Watcher | None = None
        self._framework = ""
        self._task: asyncio.Task[None] | None = None
        self._trouble: str | None = None

    async def start(self, framework: str, watcher: Watcher) -> None:
        """Raises ``ConfigurationError`` for a file that cannot be read; later ones are only logged."""
        self._framework, self._watcher = framework, watcher
        self._look()
        self._task = asyncio.create_task(self._follow(), name="dragoman static discovery")

    async def synced(self) -> None:
        """The file was read at the start."""

    def announce(self, endpoint: Endpoint) -> None:
        """Whoever writes the file knows of us."""

    async def withdraw(self, endpoint: Endpoint) -> None: ...

    def endpoints(self) -> Sequence[Endpoint]:
        return list(self._known.values())

    @property
    def trouble(self) -> str | None:
        return self._trouble

    async def close(self) -> None:
        self._watcher = None
        if self._task is not None:
            await end(self._task)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._poll)
            try:
                self._look()
                self._trouble = None
            except ConfigurationError as error:
                if self._trouble is None:
                    log.warning("The file of endpoints cannot be used; what was known stays.", exc_info=error)
                self._trouble = str(error)

    def _look(self) -> None:
        try:
            state = self._path.stat()
            seen = (state.st_mtime_ns, state.st_size, state.st_ino)
            if seen == self._seen:
                return
            found = self._read(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"The endpoints cannot be read: {error}",
                code="topology.static",
                next="It is a JSON list of objects; see the page on topologies.",
                file=str(self._path),
            ) from error
        self._seen = seen
        self._apply(found)

    def _read(self, text: str) -> dict[str, Endpoint]:
        entries = json.loads(text)
        if not isinstance(entries, list):
            raise ValueError("it is not a list.")
        found = {}
        for number, entry in enumerate(entries, 1):
            if isinstance(entry, dict):
                entry.setdefault("pubsub.framework.uuid", "static")
            try:
                endpoint = endpoint_of(entry)
            except EntryRefused as error:
                raise ValueError(f"entry {number}: {error.what}") from error
            if endpoint.key in found:
                raise ValueError(f"entry {number}: another one is {endpoint.key}; change its service.id.")
            found[endpoint.key] = endpoint
        return found

    def _apply(self, found: dict[str, Endpoint]) -> None:
        before, self._known = self._known, found
        if self._watcher is None:
            return
        for key, endpoint in before.items():
            if key not in found:
                self._watcher.lost(endpoint)
        for key, endpoint in found.items():
            if before.get(key) != endpoint and endpoint.framework != self._framework:
                self._watcher.found(endpoint)
