"""What topics have seen, in plain numbers that anyone may read at any time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dragoman.topology.sequence import Sequence
from dragoman.topology.topic import Topic

MOST_ORIGINS = 1000
"""Per topic. The one that was silent longest is forgotten first."""


class Origin:
    """What came from one sender."""

    __slots__ = ("_lowest", "_sum", "delay", "sequence")

    def __init__(self) -> None:
        self.sequence = Sequence()
        self.delay = 0
        """Milliseconds that the last message took."""
        self._sum = 0
        self._lowest = 0

    def came(self, sequence: int, sent_at: int, now: int) -> bool:
        """Whether it is new. A sender whose clock is ahead is measured from its quickest message."""
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
    """Calls of subscribers that raised."""
    receive_vetoed: int = 0
    invalid: int = 0
    """Messages that could not be read."""
    unwanted: int = 0
    """Messages of types that no subscriber takes."""
    overflowed: int = 0
    """Messages that found a full queue."""
    origins: dict[str, Origin] = field(default_factory=dict)

    def origin(self, name: str) -> Origin:
        found = self.origins.get(name)
        if found is None:
            if len(self.origins) >= MOST_ORIGINS:
                del self.origins[next(iter(self.origins))]
            found = self.origins[name] = Origin()
        return found

    @property
    def missing(self) -> int:
        return sum(each.sequence.missing for each in self.origins.values())

    @property
    def received(self) -> int:
        return sum(each.sequence.received for each in self.origins.values())

    def counters(self) -> dict[str, int]:
        return {
            "sent": self.sent,
            "send_failed": self.send_failed,
            "send_vetoed": self.send_vetoed,
            "received": self.received,
            "missing": self.missing,
            "handled": self.handled,
            "failed": self.failed,
            "receive_vetoed": self.receive_vetoed,
            "invalid": self.invalid,
            "unwanted": self.unwanted,
            "overflowed": self.overflowed,
        }


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
        for name in TopicMetrics().counters():
            yield f"# TYPE dragoman_topology_{name}_total counter"
            for topic, found in self.topics.items():
                yield f'dragoman_topology_{name}_total{{topic="{topic.key}"}} {found.counters()[name]}'
        for name in ("received", "missing", "duplicates", "delay_ms"):
            yield f"# TYPE dragoman_topology_origin_{name} gauge"
            for topic, found in self.topics.items():
                for origin, seen in found.origins.items():
                    labels = f'topic="{topic.key}",origin="{origin}"'
                    yield f"dragoman_topology_origin_{name}{{{labels}}} {seen.snapshot()[name]}"
