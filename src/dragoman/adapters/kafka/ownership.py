"""One member of a group that has everything, by the group's own protocol.

All members subscribe to a topic with one partition and no messages. Whoever is given that partition takes all
partitions of the channels as well. Kafka refuses commits of a member that is out, so there are never two.
"""

from __future__ import annotations

import time
from collections.abc import Container, Sequence

from dragoman.adapters.kafka.administration import INTERNAL, Administration, Place
from dragoman.core.errors import BrokerError

_LOOK_EVERY = 5.0


class Ownership:
    topic = INTERNAL

    def __init__(self, administration: Administration, channels: Sequence[str]) -> None:
        self._administration = administration
        self._channels = channels
        self._held = False
        self._looked = 0.0

    def begin(self) -> None:
        """The partition of the topic is ours, and so is everything."""
        self._held, self._looked = True, 0.0

    def end(self) -> None:
        self._held = False

    def new_places(self, known: Container[tuple[str, int | None]]) -> list[Place]:
        """Partitions that we should have and have not: all at first, then those that were added."""
        now = time.monotonic()
        if not self._held or now - self._looked < _LOOK_EVERY:
            return []
        try:
            places = [
                (channel, partition)
                for channel in self._channels
                for partition in self._administration.partitions(channel)
            ]
        except BrokerError:
            # The server is away, or the channel is: there is time to look again.
            places = []
        self._looked = now
        return [place for place in places if place not in known]
