"""Counters of the server, in Prometheus' text format."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """Requests by method and status, their durations, and reads that were served from memory."""

    def __init__(self) -> None:
        self.started = time.time()
        self.hot = 0
        """Only the event loop counts these, so a plain number will do."""
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0
        self._guard = threading.Lock()

    def observe(self, method: str, status: int, seconds: float) -> None:
        with self._guard:
            self._requests[method, status] += 1
            self._seconds += seconds
            self._buckets[next((bound for bound in _BOUNDS if seconds <= bound), float("inf"))] += 1

    def text(self, gauges: Iterable[tuple[str, str, float]]) -> str:
        """``gauges`` are name, help and value of what is measured just now."""
        with self._guard:
            lines = self._request_lines()
        for name, help, value in gauges:
            lines += [f"# HELP {name} {help}", f"# TYPE {name} gauge", f"{name} {value:.15g}"]
        return "\n".join(lines) + "\n"

    def _request_lines(self) -> list[str]:
        name = "dragoman_registry_requests_total"
        lines = [f"# HELP {name} Requests by method and status.", f"# TYPE {name} counter"]
        for (method, status), count in sorted(self._requests.items()):
            lines.append(f'{name}{{method="{method}",status="{status}"}} {count}')
        name = "dragoman_registry_hot_reads_total"
        lines += [
            f"# HELP {name} Reads answered from memory.",
            f"# TYPE {name} counter",
            f"{name} {self.hot}",
        ]
        name = "dragoman_registry_request_seconds"
        lines += [f"# HELP {name} Time to answer, hot reads excepted.", f"# TYPE {name} histogram"]
        seen = 0
        for bound in _BOUNDS:
            seen += self._buckets[bound]
            lines.append(f'{name}_bucket{{le="{bound:g}"}} {seen}')
        total = seen + self._buckets[float("inf")]
        lines.append(f'{name}_bucket{{le="+Inf"}} {total}')
        return [*lines, f"{name}_sum {self._seconds:.6f}", f"{name}_count {total}"]
