"""The client's numbers as Prometheus reads them: text, without any library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields

from dragoman.client.histogram import Histogram
from dragoman.client.labels import label_of, replies_label
from dragoman.client.metrics import ChannelMetrics, Metrics
from dragoman.core.broker import Lag

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_HELP = {
    "received": "Messages received.",
    "handled": "Messages handled.",
    "failed": "Calls of handlers that raised.",
    "retried": "Calls of handlers after the first.",
    "postponed": "Messages to be tried again later.",
    "dead": "Messages that became dead letters.",
    "invalid": "Messages that could not be read.",
    "expired": "Messages whose time had passed.",
    "skipped": "Messages that failed and were passed over.",
    "unselected": "Messages that the endpoint does not consume.",
    "ignored": "Messages that need no handling: delivered twice at once, parts of a sequence, marks.",
    "returned": "Messages to be delivered again by the broker.",
    "revoked": "Messages taken away by the broker before they were done with.",
    "replied": "Replies sent.",
    "published": "Messages published.",
    "late": "Replies that came when nobody waited any more.",
    "repeated": "Messages or replies that came again, and had no second effect.",
}


def exposition(
    metrics: Metrics,
    in_flight: Mapping[str, int],
    lags: Iterable[Lag] = (),
    client: str = "client",
    oldest_s: Mapping[str, float] | None = None,
) -> str:
    """``in_flight`` and ``oldest_s`` are per group; ``client`` is the client's name."""
    parts = (
        _counters(metrics, client),
        _in_flight(in_flight),
        _oldest(oldest_s or {}),
        _lags(lags),
        _latencies(metrics),
    )
    return "\n".join([*(line for part in parts for line in part), ""])


def _counters(metrics: Metrics, client: str) -> Iterator[str]:
    found: dict[str, list[ChannelMetrics]] = {replies_label(client): [metrics.replies]}
    for channel, counters in metrics.channels.items():
        found.setdefault(label_of(channel), []).append(counters)
    for each in fields(ChannelMetrics):
        name = f"dragoman_client_{each.name}_total"
        yield f"# HELP {name} {_HELP[each.name]}"
        yield f"# TYPE {name} counter"
        for label, alike in sorted(found.items()):
            yield f"{name}{_labels(channel=label)} {sum(getattr(one, each.name) for one in alike)}"


def _in_flight(groups: Mapping[str, int]) -> Iterator[str]:
    yield "# HELP dragoman_client_in_flight Messages received and not handled yet."
    yield "# TYPE dragoman_client_in_flight gauge"
    found: Counter[str] = Counter()
    for group, count in groups.items():
        found[label_of(group)] += count
    for label, count in sorted(found.items()):
        yield f"dragoman_client_in_flight{_labels(group=label)} {count}"


def _oldest(groups: Mapping[str, float]) -> Iterator[str]:
    yield "# HELP dragoman_client_oldest_seconds How long the message handled longest is with its handler."
    yield "# TYPE dragoman_client_oldest_seconds gauge"
    found: dict[str, float] = {}
    for group, seconds in groups.items():
        found[label_of(group)] = max(found.get(label_of(group), 0.0), seconds)
    for label, seconds in sorted(found.items()):
        yield f"dragoman_client_oldest_seconds{_labels(group=label)} {seconds:.3f}"


def _lags(lags: Iterable[Lag]) -> Iterator[str]:
    yield "# HELP dragoman_client_lag Messages that the group has not done yet."
    yield "# TYPE dragoman_client_lag gauge"
    found: Counter[tuple[str, str, str]] = Counter()
    for lag in lags:
        found[label_of(lag.channel), label_of(lag.group), str(lag.partition)] += lag.behind
    for (channel, group, partition), behind in found.items():
        yield f"dragoman_client_lag{_labels(channel=channel, group=group, partition=partition)} {behind}"


def _latencies(metrics: Metrics) -> Iterator[str]:
    name = "dragoman_client_handling_seconds"
    yield f"# HELP {name} From the turn of a message until it is done with."
    yield f"# TYPE {name} histogram"
    found: dict[str, Histogram] = {}
    for channel, one in metrics.latencies.items():
        found.setdefault(label_of(channel), Histogram()).add(one)
    for channel, histogram in sorted(found.items()):
        for bound, count in histogram.cumulative():
            edge = "+Inf" if bound == float("inf") else f"{bound:g}"
            yield f"{name}_bucket{_labels(channel=channel, le=edge)} {count}"
        yield f"{name}_sum{_labels(channel=channel)} {histogram.total!r}"
        yield f"{name}_count{_labels(channel=channel)} {histogram.count}"


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
