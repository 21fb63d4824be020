"""How often somebody may come: a bucket that fills steadily and is emptied by requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from dragoman.core.errors import ConfigurationError, NotNow

_MOST = 50_000


@dataclass(frozen=True, slots=True)
class Rate:
    """``per_second`` in the long run, ``burst`` at once."""

    per_second: float
    burst: float

    def __post_init__(self) -> None:
        if not (self.per_second > 0 and self.burst >= 1):
            raise ConfigurationError("A rate is above zero, with a burst of 1 or more.")


class RateLimit:
    """One bucket per name, in this process: with several gateways each has its own.

    The buckets that were not used for longest are forgotten first, so strangers cannot fill the memory.
    """

    def __init__(self, rate: Rate | None, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, name: str) -> None:
        """Raises ``NotNow`` with the time when there is room again."""
        rate = self._rate
        if rate is None:
            return
        now = self._clock()
        level, at = self._buckets.get(name, (rate.burst, now))
        level = min(rate.burst, level + (now - at) * rate.per_second)
        if level < 1:
            error = NotNow("Too many requests.", code="gateway.too-many-requests", next="Come again later.")
            error.retry_after = (1 - level) / rate.per_second
            raise error
        self._buckets[name] = (level - 1, now)
        self._buckets.move_to_end(name)
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
