"""A group's records on one channel: the last message of each subject, changed by compare-and-set."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Collection, Sequence

from dragoman.adapters.nats.connection import Link
from dragoman.adapters.nats.errors import Refused, ours
from dragoman.adapters.nats.publisher import NoStream, Publisher
from dragoman.core.leasing import Change, Stored

PASSING = 90
"""Seconds that a group which is not to last outlives its last sign of life."""
_EXPECTED = "Nats-Expected-Last-Subject-Sequence"


async def make_stream(link: Link, lasting: bool) -> None:
    name = link.names.groups(lasting)
    await link.make_stream(
        name,
        subjects=[f"{name}.>"],
        description="What the groups of Dragoman know: members, owners and positions.",
        retention="limits",
        discard="old",
        storage="file",
        max_msgs_per_subject=1,
        max_age=0 if lasting else PASSING * 1_000_000_000,
        num_replicas=link.options.replicas,
    )


async def load(link: Link, stream: str, subject: str) -> Stored | None:
    """What is kept under a subject, as the stream's leader has it."""
    try:
        message = await link.message(stream, last_by_subj=subject)
    except Refused as refused:
        if refused.number == Refused.STREAM_NOT_FOUND:
            return None
        raise
    return None if message is None else Stored(b64decode(message.get("data", "")), message["seq"])


class NatsRecords:
    """Implements ``dragoman.core.leasing.Records``."""

    def __init__(self, link: Link, publisher: Publisher, channel: str, group: str, lasting: bool) -> None:
        self._link = link
        self._publisher = publisher
        self._channel = channel
        self._group = group
        self._lasting = lasting
        self._stream = link.names.groups(lasting)

    def _subject(self, name: str) -> str:
        return self._link.names.record(self._channel, self._group, name, self._lasting)

    async def load(self, names: Sequence[str]) -> list[Stored | None]:
        with ours(channel=self._channel):
            return list(
                await asyncio.gather(*(load(self._link, self._stream, self._subject(name)) for name in names))
            )

    async def save(self, changes: Sequence[Change]) -> list[int | None]:
        if len(changes) == 1:
            return [await self._save(changes[0])]
        return list(await asyncio.gather(*(self._save(change) for change in changes)))

    async def _save(self, change: Change) -> int | None:
        headers = {_EXPECTED: str(change.revision)}
        try:
            return await self._publisher.keep(self._subject(change.name), change.data, headers)
        except NoStream:
            with ours():
                await make_stream(self._link, self._lasting)
            return None
        except Exception as error:
            cause = error.__cause__
            if isinstance(cause, Refused) and cause.number == Refused.WRONG_LAST_SEQUENCE:
                return None
            raise

    async def remove(self, names: Sequence[str]) -> None:
        with ours():
            await self._link.request(f"STREAM.PURGE.{self._stream}", filter=self._subject(">"))

    async def seat(self) -> str:
        with ours():
            return await self._link.seat()

    async def gone(self, seats: Collection[str]) -> set[str]:
        there = await asyncio.gather(*(self._link.is_there(seat) for seat in seats))
        return {seat for seat, here in zip(seats, there, strict=True) if not here}
