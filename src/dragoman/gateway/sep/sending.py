"""One message on its way out: sent in parts, and sent again until all of them are acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from dragoman.core.backoff import Backoff
from dragoman.gateway.sep.frames import Ack, Part

_FIRST_WAIT = 0.25
_LEAST_WAIT = 0.03
_LONGEST_WAIT = 2.0
_FIRST_WINDOW = 32
_LEAST_WINDOW = 4
_LARGEST_WINDOW = 512
_OVERTAKEN = 3
"""A part is taken for lost when one so many further on has come."""


class RoundTrip:
    """How long an answer takes on this way, by what was measured: RFC 6298's smoothing."""

    def __init__(self) -> None:
        self.smoothed = 0.0
        self._variation = 0.0

    def measured(self, seconds: float) -> None:
        if not self.smoothed:
            self.smoothed, self._variation = seconds, seconds / 2
            return
        self._variation += (abs(self.smoothed - seconds) - self._variation) / 4
        self.smoothed += (seconds - self.smoothed) / 8

    @property
    def wait(self) -> float:
        """Seconds after which a part without an acknowledgement is sent again."""
        if not self.smoothed:
            return _FIRST_WAIT
        return min(_LONGEST_WAIT, max(_LEAST_WAIT, self.smoothed + 4 * self._variation))


class Outgoing:
    """``transmit`` sends parts at once. ``again`` is called after each time that waiting was in vain."""

    def __init__(
        self,
        stream: int,
        parts: Sequence[bytes],
        transmit: Callable[[list[Part]], None],
        round_trip: RoundTrip,
        again: Callable[[int], None],
        *,
        probe: bool,
    ) -> None:
        self._parts = [Part(stream, index, len(parts), data) for index, data in enumerate(parts)]
        self._transmit = transmit
        self._round_trip = round_trip
        self._again = again
        self._probe = probe
        """Go on with the first part when all have come, until closed: is there still somebody?"""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.restart()

    def restart(self) -> None:
        """Send all of it anew: the other side has forgotten, or never knew."""
        self._missing = dict.fromkeys(range(len(self._parts)))
        self._sent: dict[int, float] = {}
        self._repeated: set[int] = set()
        self._window = _FIRST_WINDOW
        self._vain = 0
        self._go_on()

    @property
    def acknowledged(self) -> bool:
        return not self._missing

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def acknowledge(self, ack: Ack) -> None:
        if ack.of != len(self._parts) or self._closed:
            return
        now = self._loop.time()
        came = [index for index in self._missing if ack.bitmap[index // 8] & 1 << index % 8]
        for index in came:
            del self._missing[index]
            sent = self._sent.pop(index, None)
            if sent is not None and index not in self._repeated:
                self._round_trip.measured(now - sent)
        if not came:
            # The wait goes on: who repeats itself must not keep a message alive.
            return
        self._vain = 0
        self._window = min(_LARGEST_WINDOW, self._window + len(came))
        self._repeat_overtaken(max(came), now)
        self._go_on()

    def _repeat_overtaken(self, furthest: int, now: float) -> None:
        lost = [
            index
            for index, sent in self._sent.items()
            if index + _OVERTAKEN <= furthest and now - sent >= self._round_trip.smoothed
        ]
        self._send(lost)

    def _go_on(self) -> None:
        """Send what fits into the window, then wait."""
        if self._closed:
            return
        room = self._window - len(self._sent)
        fresh = [index for index in self._missing if index not in self._sent][: max(0, room)]
        self._send(fresh)
        self._wait()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._missing or self._probe:
            seconds = self._round_trip.wait if self._missing else max(_FIRST_WAIT, self._round_trip.wait)
            # Without jitter: round trips are measured by what this timer sends.
            backoff = Backoff(seconds, _LONGEST_WAIT, jitter=0.0)
            self._timer = self._loop.call_later(backoff.wait_s(self._vain + 1), self._in_vain)

    def _in_vain(self) -> None:
        self._vain = min(self._vain + 1, 8)
        self._window = max(_LEAST_WINDOW, self._window // 2)
        self._again(self._vain)
        if self._closed:
            return
        if self._missing:
            self._send(list(self._sent)[: self._window] or list(self._missing)[: self._window])
        else:
            self._transmit([self._parts[0]])
        self._wait()

    def _send(self, indexes: list[int]) -> None:
        if not indexes:
            return
        now = self._loop.time()
        for index in indexes:
            if index in self._sent:
                self._repeated.add(index)
            self._sent[index] = now
        self._transmit([self._parts[index] for index in indexes])
