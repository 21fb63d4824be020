"""Who did what, when, and what came of it. Ids and codes only: never data, never a token."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import Counter
from typing import NamedTuple

from dragoman.core.errors import ConfigurationError

log = logging.getLogger("dragoman.gateway.audit")


class Ids(NamedTuple):
    """Which request it was."""

    client: str
    request: str
    entity: str | None = None
    resource: str | None = None


NOBODY = Ids("", "")


class Audit:
    """Counts events for the metrics, and writes them to the log, or as JSON lines to a file."""

    def __init__(self, path: str | None = None) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._file = None if path is None else _opened(path)

    def record(self, event: str, code: str = "", peer: str = "", ids: Ids = NOBODY) -> None:
        self.counts[event, code] += 1
        if self._file is not None:
            self._write(self._file, event, _shown(code, peer, ids))
        elif log.isEnabledFor(logging.INFO):
            log.info(event, extra=_shown(code, peer, ids))

    def _write(self, file: int, event: str, shown: dict[str, str]) -> None:
        """What is told has happened: a full disk must not make a failure of it."""
        entry = {"at": round(time.time(), 3), "event": event, **shown}
        try:
            # One write per line, so that gateways that share the file do not mix theirs.
            os.write(file, f"{json.dumps(entry, ensure_ascii=False)}\n".encode())
        except OSError as error:
            self.counts["not in the audit", ""] += 1
            log.error("%s, which the audit cannot take: %s.", event, error.strerror, extra=shown)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigurationError(
            f"The audit cannot be written: {error.strerror}.", next="Name another file.", file=path
        ) from error


def _shown(code: str, peer: str, ids: Ids) -> dict[str, str]:
    """What there is to show, cut, since anything may have been sent."""
    found = {"code": code, "peer": peer, **ids._asdict()}
    return {name: value[:200] for name, value in found.items() if value}
