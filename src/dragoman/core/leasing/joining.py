"""What a broker's connection has to do with groups: its receivers join them, and leave when it closes."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from uuid import uuid4

from dragoman.core.broker import LogReader, Subscription
from dragoman.core.leasing.membership import Membership
from dragoman.core.leasing.receiver import LeasedReceiver
from dragoman.core.leasing.records import Records, Source
from dragoman.core.leasing.starting import starts_in

log = logging.getLogger("dragoman.leasing")


class Members:
    """All members of groups that one connection has. ``reader`` opens the log that groups start in."""

    def __init__(self, lease: float, handover: float, reader: Callable[[], LogReader]) -> None:
        self._lease = lease
        self._handover = handover
        self._reader = reader
        self._receivers: list[LeasedReceiver] = []

    async def join(
        self, subscription: Subscription, source: Source, records: Callable[[str], Records]
    ) -> LeasedReceiver:
        """``records`` gives those of the group on one channel. Raises what ``Membership.join`` raises."""
        name = re.sub(r"[^A-Za-z0-9_-]", "_", subscription.member)[:40] or "member"
        name = f"{name}-{os.getpid()}-{uuid4().hex[:12]}"
        starts = partial(self._starts, subscription)
        memberships = [
            Membership(channel, name, subscription, records(channel), starts, self._lease, self._handover)
            for channel in subscription.channels
        ]
        receiver = LeasedReceiver(source, memberships, subscription.group)
        try:
            for membership in memberships:
                await membership.join(await source.partitions(membership.channel))
        except BaseException:
            await receiver.close()
            raise
        self._receivers = [one for one in self._receivers if not one.closed]
        self._receivers.append(receiver)
        return receiver

    async def _starts(self, subscription: Subscription, channel: str) -> Sequence[int]:
        def ask() -> list[int]:
            reader = self._reader()
            try:
                return starts_in(reader, channel, subscription.start)
            finally:
                reader.close()

        return await asyncio.to_thread(ask)

    async def leave(self) -> None:
        """All of them. Where the broker is away, the others notice that a member is gone."""
        for receiver in self._receivers:
            try:
                await receiver.close()
            except Exception as error:
                log.warning("A receiver could not leave its group: %s", error)
        self._receivers.clear()
