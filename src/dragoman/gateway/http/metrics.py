"""Counters in Prometheus' text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

_NONE: Mapping[str, int] = {}
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

    def text(
        self,
        events: Mapping[tuple[str, str], int],
        waiting: int,
        sep: Mapping[str, int] = _NONE,
        sessions: int = 0,
    ) -> str:
        """``sep`` is what a SEP server beside it has counted, ``sessions`` how many it has open."""
        requests = (
            f'{{path="{path}",status="{status}"}} {count}'
            for (path, status), count in sorted(self._requests.items())
        )
        envelopes = (
            f'{{event="{event}",code="{code}"}} {count}' for (event, code), count in sorted(events.items())
        )
        datagrams = (f'{{event="{event}"}} {count}' for event, count in sorted(sep.items()))
        lines = [
            *_family("requests_total", "counter", "Requests by path and status.", requests),
            *_family("events_total", "counter", "What came of envelopes.", envelopes),
            *_family(
                "waiting_collections", "gauge", "Collections that wait for a response.", [f" {waiting}"]
            ),
            *_family("sep_total", "counter", "What came of datagrams and requests by SEP.", datagrams),
            *_family("sep_sessions", "gauge", "Sessions by SEP that are open.", [f" {sessions}"]),
            *_family("request_seconds", "histogram", "Time to answer; collections may wait.", self._times()),
        ]
        return "\n".join(lines) + "\n"

    def _times(self) -> Iterable[str]:
        seen = 0
        for bound, count in zip((*_BOUNDS, "+Inf"), self._buckets, strict=True):
            seen += count
            yield f'_bucket{{le="{bound}"}} {seen}'
        yield f"_sum {self._seconds:.6f}"
        yield f"_count {seen}"


def _family(name: str, kind: str, help: str, samples: Iterable[str]) -> list[str]:
    """A metric with what stands behind its name in each line."""
    full = f"dragoman_gateway_{name}"
    return [f"# HELP {full} {help}", f"# TYPE {full} {kind}", *(full + each for each in samples)]
