"""Counters in Prometheus' text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets = [0] * (len(_BOUNDS) + 1)
        self._seconds = 0.0

    def observe(self, path: str, status: int, seconds: float) -> None:
        self._requests[path, status] += 1
        self._seconds += seconds
        place = 0
        while place < len(_BOUNDS) and seconds > _BOUNDS[place]:
            place += 1
        self._buckets[place] += 1

    def text(self, events: Mapping[tuple[str, str], int], waiting: int) -> str:
        name = "dragoman_gateway_requests_total"
        lines = [f"# HELP {name} Requests by path and status.", f"# TYPE {name} counter"]
        for (path, status), count in sorted(self._requests.items()):
            lines.append(f'{name}{{path="{path}",status="{status}"}} {count}')
        name = "dragoman_gateway_events_total"
        lines += [f"# HELP {name} What came of envelopes.", f"# TYPE {name} counter"]
        for (event, code), count in sorted(events.items()):
            lines.append(f'{name}{{event="{event}",code="{code}"}} {count}')
        name = "dragoman_gateway_waiting_collections"
        lines += [f"# HELP {name} Collections that wait for a response.", f"# TYPE {name} gauge"]
        lines.append(f"{name} {waiting}")
        return "\n".join([*lines, *self._histogram()]) + "\n"

    def _histogram(self) -> list[str]:
        name = "dragoman_gateway_request_seconds"
        lines = [f"# HELP {name} Time to answer; collections may wait.", f"# TYPE {name} histogram"]
        seen = 0
        for bound, count in zip((*_BOUNDS, "+Inf"), self._buckets, strict=True):
            seen += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {seen}')
        return [*lines, f"{name}_sum {self._seconds:.6f}", f"{name}_count {seen}"]
