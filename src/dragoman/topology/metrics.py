"""What topics have seen, in plain numbers that anyone may read at any time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dragoman.topology.sequence import Sequence
from dragoman.topology.topic import Topic

MOST_ORIGINS = 1000
"""Per topic. The one that was silent longest is forgotten first; what came from it stays counted."""

_COUNTERS = {
    "sent": "Messages that the transport has taken.",
    "send_failed": "Messages that the transport has not taken.",
    "send_vetoed": "Messages that an interceptor did not let out.",
    "received": "Messages that came, repetitions not counted.",
    "missing": "Numbers of senders' sequences that did not come.",
    "handled": "Messages that all subscribers have handled.",
    "failed": "Calls of subscribers that raised.",
    "receive_vetoed": "Messages that an interceptor did not let in.",
    "invalid": "Messages that could not be read.",
    "unwanted": "Messages of types that no subscriber takes.",
    "overflowed": "Messages that found a full queue.",
    "forged": "Datagrams with a wrong signature, or with numbers elsewhere that nothing continued.",
    "unsigned": "Datagrams without the signature that their sender has announced.",
    "stale": "Datagrams that their sender has signed, but long before what is known of it.",
}

_GAUGES = {
    "received": "Messages that came from one sender.",
    "missing": "Numbers of one sender's sequence that did not come.",
    "duplicates": "Messages of one sender that came again.",
    "delay_ms": "Milliseconds that the last message of one sender took.",
}


class Origin:
    """What came from one sender."""

    __slots__ = ("_lowest", "_sum", "delay", "heard_at", "sequence")

    def __init__(self) -> None:
        self.sequence = Sequence()
        self.heard_at = 0
        """When the last message came, in milliseconds since the epoch."""
        self.delay = 0
        """Milliseconds that the last message took."""
        self._sum = 0
        self._lowest = 0

    def came(self, sequence: int, sent_at: int, now: int) -> bool:
        """Whether it is new. A sender whose clock is ahead is measured from its quickest message."""
        self.heard_at = now
        raw = now - sent_at
        if raw < self._lowest:
            self._lowest = raw
        self.delay = raw - self._lowest
        self._sum += self.delay
        return self.sequence.take(sequence)

    @property
    def clock_ahead(self) -> int:
        """Milliseconds that the sender's clock is ahead of ours, at least."""
        return -self._lowest

    def snapshot(self) -> dict[str, int | float]:
        count = self.sequence.received + self.sequence.duplicates
        return {
            "received": self.sequence.received,
            "missing": self.sequence.missing,
            "duplicates": self.sequence.duplicates,
            "delay_ms": self.delay,
            "mean_delay_ms": round(self._sum / count, 3) if count else 0,
            "clock_ahead_ms": self.clock_ahead,
        }


@dataclass(slots=True)
class TopicMetrics:
    sent: int = 0
    send_failed: int = 0
    send_vetoed: int = 0
    handled: int = 0
    failed: int = 0
    receive_vetoed: int = 0
    invalid: int = 0
    unwanted: int = 0
    overflowed: int = 0
    forged: int = 0
    unsigned: int = 0
    stale: int = 0
    origins: dict[str, Origin] = field(default_factory=dict)
    _received_before: int = 0
    """From origins that are forgotten, as is the next."""
    _missing_before: int = 0

    def origin(self, name: str) -> Origin:
        found = self.origins.get(name)
        if found is None:
            if len(self.origins) >= MOST_ORIGINS:
                self._forget(min(self.origins, key=lambda each: self.origins[each].heard_at))
            found = self.origins[name] = Origin()
        return found

    def _forget(self, name: str) -> None:
        forgotten = self.origins.pop(name).sequence
        self._received_before += forgotten.received
        self._missing_before += forgotten.missing

    @property
    def missing(self) -> int:
        return self._missing_before + sum(each.sequence.missing for each in self.origins.values())

    @property
    def received(self) -> int:
        return self._received_before + sum(each.sequence.received for each in self.origins.values())

    def counters(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in _COUNTERS}


class Metrics:
    """Per topic since the topology started."""

    def __init__(self) -> None:
        self.topics: dict[Topic, TopicMetrics] = {}

    def of(self, topic: Topic) -> TopicMetrics:
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicMetrics()
        return found

    def snapshot(self) -> dict[str, dict[str, object]]:
        return {
            topic.key: {
                **found.counters(),
                "origins": {name: origin.snapshot() for name, origin in found.origins.items()},
            }
            for topic, found in sorted(self.topics.items(), key=lambda item: item[0].key)
        }

    def prometheus(self) -> str:
        """The same as Prometheus reads it."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        counted = [(_labels(topic=topic.key), found.counters()) for topic, found in self.topics.items()]
        for name, help in _COUNTERS.items():
            yield from _head(f"dragoman_topology_{name}_total", "counter", help)
            for labels, counters in counted:
                yield f"dragoman_topology_{name}_total{labels} {counters[name]}"
        seen = [
            (_labels(topic=topic.key, origin=origin), each.snapshot())
            for topic, found in self.topics.items()
            for origin, each in found.origins.items()
        ]
        for name, help in _GAUGES.items():
            yield from _head(f"dragoman_topology_origin_{name}", "gauge", help)
            for labels, numbers in seen:
                yield f"dragoman_topology_origin_{name}{labels} {numbers[name]}"


def _head(name: str, kind: str, help: str) -> tuple[str, str]:
    return f"# HELP {name} {help}", f"# TYPE {name} {kind}"


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    """An origin's name comes with a message, so it may be anything."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
