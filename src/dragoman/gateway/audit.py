"""Who did what, when, and what came of it. Ids and codes only: never data, never a token."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import Counter
from typing import NamedTuple

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
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file = None if path is None else os.open(path, flags, 0o600)

    def record(self, event: str, code: str = "", peer: str = "", ids: Ids = NOBODY) -> None:
        self.counts[event, code] += 1
        if self._file is not None:
            entry = {"at": round(time.time(), 3), "event": event, **_shown(code, peer, ids)}
            # One write per line, so that gateways that share the file do not mix theirs.
            os.write(self._file, f"{json.dumps(entry, ensure_ascii=False)}\n".encode())
        elif log.isEnabledFor(logging.INFO):
            log.info(event, extra=_shown(code, peer, ids))

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _shown(code: str, peer: str, ids: Ids) -> dict[str, str]:
    """What there is to show, cut, since anything may have been sent."""
    found = {"code": code, "peer": peer, **ids._asdict()}
    return {name: value[:200] for name, value in found.items() if value}
