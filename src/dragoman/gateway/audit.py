"""Who did what, when, and what came of it. Ids and codes only: never data, never a token."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import Counter

log = logging.getLogger("dragoman.gateway.audit")


class Audit:
    """Counts events for the metrics, and writes them to the log, or as JSON lines to a file."""

    def __init__(self, path: str | None = None) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file = None if path is None else os.open(path, flags, 0o600)

    def record(self, event: str, code: str = "", **ids: str) -> None:
        self.counts[event, code] += 1
        if self._file is not None:
            entry = {"at": round(time.time(), 3), "event": event, "code": code, **ids}
            # One write per line, so that gateways that share the file do not mix theirs.
            os.write(self._file, f"{json.dumps(entry, ensure_ascii=False)}\n".encode())
        elif log.isEnabledFor(logging.INFO):
            log.info(event, extra={"code": code, **ids})

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
