"""From messages to blocks in the log: grouped by partition, each group one block or a few."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

from dragoman.adapters.embedded.appender import Contended
from dragoman.adapters.embedded.block import Draft, draft
from dragoman.adapters.embedded.channels import ChannelFiles
from dragoman.core.errors import EncodeError
from dragoman.core.message import Message, Position

BLOCK_MESSAGES = 4096
BLOCK_BYTES = 4 << 20
MAX_PAYLOAD = 512 << 20


class Batch:
    """The messages of one call for one partition, and where they stood in the call."""

    __slots__ = ("files", "indexes", "messages", "partition")

    def __init__(self, files: ChannelFiles, partition: int) -> None:
        self.files = files
        self.partition = partition
        self.messages: list[Message] = []
        self.indexes: list[int] = []

    def drafts(self, now: int) -> list[Draft]:
        if len(self.messages) <= BLOCK_MESSAGES and _weight(self.messages) <= BLOCK_BYTES:
            return [draft(self.messages, now)]
        drafts: list[Draft] = []
        part: list[Message] = []
        weight = 0
        for message in self.messages:
            part.append(message)
            weight += _checked_size(message)
            if len(part) == BLOCK_MESSAGES or weight > BLOCK_BYTES:
                drafts.append(draft(part, now))
                part, weight = [], 0
        return [*drafts, draft(part, now)] if part else drafts


def batches(messages: Sequence[Message], files: Mapping[str, ChannelFiles]) -> list[Batch]:
    partitions = {name: one.bounds.partitions for name, one in files.items()}
    found: dict[tuple[str, int], Batch] = {}
    for index, message in enumerate(messages):
        name = message.channel
        one = files[name]
        partition = one.choose(message, partitions[name])
        batch = found.get((name, partition))
        if batch is None:
            batch = found[name, partition] = Batch(one, partition)
        batch.messages.append(message)
        batch.indexes.append(index)
    return list(found.values())


async def append(batch: Batch, *, in_thread: bool) -> list[Position]:
    """In this thread if nobody else is writing: then it takes no longer than a copy in memory."""
    drafts = batch.drafts(time.time_ns() // 1_000_000)
    appender = batch.files.appender(batch.partition)
    if in_thread:
        return _positions(batch, drafts, await asyncio.to_thread(appender.append, drafts, wait=True))
    try:
        return _positions(batch, drafts, appender.append(drafts, wait=False))
    except Contended:
        return _positions(batch, drafts, await asyncio.to_thread(appender.append, drafts, wait=True))


def append_now(batch: Batch) -> None:
    batch.files.appender(batch.partition).append(batch.drafts(time.time_ns() // 1_000_000), wait=True)


def _positions(batch: Batch, drafts: Sequence[Draft], offsets: Sequence[int]) -> list[Position]:
    name, partition = batch.files.name, batch.partition
    return [
        Position(name, partition, offset + number)
        for one, offset in zip(drafts, offsets, strict=True)
        for number in range(one.count)
    ]


def _checked_size(message: Message) -> int:
    size = len(message.payload or b"")
    if size > MAX_PAYLOAD:
        raise EncodeError(
            f"A payload of {size} bytes is too large.",
            code="message.too-large",
            next=f"Send at most {MAX_PAYLOAD} bytes, or a reference to where the data lies.",
            channel=message.channel,
        )
    return size


def _weight(messages: Sequence[Message]) -> int:
    return sum(len(message.payload or b"") for message in messages)
