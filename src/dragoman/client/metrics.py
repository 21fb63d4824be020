"""What the client has done, in plain numbers that anyone may read at any time."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from dragoman.client.histogram import Histogram


@dataclass(slots=True)
class ChannelMetrics:
    """Each message that was received ends as exactly one of ``ENDS``, or is still in flight."""

    received: int = 0
    """Messages received. One that is delivered again counts again."""
    handled: int = 0
    failed: int = 0
    """Calls of handlers that raised."""
    retried: int = 0
    """Calls of handlers after the first."""
    postponed: int = 0
    """Messages to be tried again later."""
    dead: int = 0
    invalid: int = 0
    expired: int = 0
    skipped: int = 0
    """Failed, recorded and passed over, also by a strategy of your own."""
    unselected: int = 0
    """Not what the endpoint consumes, or not an answer to a request of this client."""
    ignored: int = 0
    """Delivered while in flight already; parts of a sequence, but one; marks of settled letters."""
    returned: int = 0
    """Not handled, so that the broker delivers them again. Those postponed do not count."""
    revoked: int = 0
    """Taken away by the broker before they were done with."""
    replied: int = 0
    published: int = 0
    late: int = 0
    """Replies that came when nobody waited any more."""
    repeated: int = 0
    """Messages that a transaction knows already, and replies that came a second time."""


ENDS = (
    "handled",
    "postponed",
    "dead",
    "invalid",
    "expired",
    "skipped",
    "unselected",
    "ignored",
    "returned",
    "revoked",
)
"""What becomes of messages: these counters together are those received, without those in flight."""
REPLY_ENDS = ("handled", "unselected", "late", "repeated")
"""The same for answers to a client's own requests."""


@dataclass(slots=True)
class Metrics:
    """Counters per channel since the client started."""

    channels: dict[str, ChannelMetrics] = field(default_factory=dict)
    replies: ChannelMetrics = field(default_factory=ChannelMetrics)
    """Answers to this client's own requests."""
    latencies: dict[str, Histogram] = field(default_factory=dict)
    """How long handling took, retries included, per channel."""

    def of(self, channel: str) -> ChannelMetrics:
        found = self.channels.get(channel)
        if found is None:
            found = self.channels[channel] = ChannelMetrics()
        return found

    def latency_of(self, channel: str) -> Histogram:
        return self.latencies.setdefault(channel, Histogram())

    def total(self, name: str) -> int:
        """The sum of one counter over all channels."""
        return sum(getattr(each, name) for each in self.channels.values())

    def snapshot(self) -> dict[str, dict[str, int]]:
        return {
            channel: {each.name: getattr(counters, each.name) for each in fields(counters)}
            for channel, counters in sorted(self.channels.items())
        }
