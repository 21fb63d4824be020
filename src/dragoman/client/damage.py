"""Receiving where messages may be damaged: the rule that all receive loops share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from dragoman.core.broker import Receiver
from dragoman.core.errors import DamagedLog
from dragoman.core.message import Message

log = logging.getLogger("dragoman.client")

REST_S = 0.2
"""Before receiving again: a receiver may raise the same damage each time at once."""


class DamageWatch:
    """Receives for one loop.

    A damaged range stops its partition only. The receiver is not given up, since it delivers what comes to
    other partitions: to the loop, damage looks like a time in which nothing came. Each range is reported once
    for each receiver. It stays until the file is restored, or the group is moved past it.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self._receiver: Receiver | None = None
        self._reported: set[tuple[object, ...]] = set()
        self.standing_at: DamagedLog | None = None
        """The damage because of which nothing came the last time."""

    async def receive(self, receiver: Receiver, limit: int, timeout: float) -> Sequence[Message]:
        """What the receiver gives; nothing if it stands at damage."""
        if receiver is not self._receiver:
            self._receiver = receiver
            self._reported.clear()
        try:
            messages = await receiver.receive(limit, timeout)
        except DamagedLog as damage:
            self.standing_at = damage
            self._report(damage)
            await asyncio.sleep(REST_S)
            return ()
        self.standing_at = None
        return messages

    def _report(self, damage: DamagedLog) -> None:
        place = damage.where.get("channel"), damage.where.get("partition"), damage.first, damage.until
        if place in self._reported:
            return
        self._reported.add(place)
        log.error(
            "The group has stopped at damaged messages. %s",
            damage.next,
            extra={**damage.where, "group": self._group, "error_code": damage.code},
        )
