"""Sending the past of a channel once more, to the same channel or to another."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from dragoman.client.headers import REPLAYED_FROM
from dragoman.client.history import Damaged, Start, history
from dragoman.client.sequence.parts import resent
from dragoman.core.broker import Broker
from dragoman.core.message import Message, with_headers

BATCH = 500


async def replay(
    broker: Broker,
    source: str,
    target: str,
    *,
    start: Start = "earliest",
    until: int | None = None,
    progress: Callable[[int], None] | None = None,
    damaged: Damaged | None = None,
) -> int:
    """Publish what ``source`` holds now to ``target``: key, headers and frame as they are; how many it were.

    ``until`` is milliseconds since the epoch; that moment itself is left out. Each copy has a header that
    says where it comes from. ``progress`` is called with the number so far. Messages that cannot be read any
    more are left out if ``damaged`` is given: it is called for each such range.
    """
    batch: list[Message] = []
    sent, run = 0, secrets.token_hex(4).encode()
    async for message in history(broker, source, start=start, damaged=damaged):
        if until is not None and (message.timestamp or 0) >= until:
            continue
        batch.append(resent(_copy(message, target), run))
        if len(batch) == BATCH:
            sent += len(await broker.publish(batch))
            batch.clear()
            if progress is not None:
                progress(sent)
    if batch:
        sent += len(await broker.publish(batch))
    return sent


def _copy(message: Message, target: str) -> Message:
    origin = f"{message.channel}:{message.partition}:{message.offset}".encode()
    return Message(
        target, message.payload, message.key, with_headers(message.headers, (REPLAYED_FROM, origin))
    )
