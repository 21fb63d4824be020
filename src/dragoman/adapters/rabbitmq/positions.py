"""How far a group is in one partition: the last record of a small stream of its own.

Streams are replicated where the server is a cluster, and survive a kill at any moment. A temporary group
needs neither: it has a classic queue that keeps one record, and that the server removes when it is unused.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from pamqp.commands import Basic

from dragoman.adapters.rabbitmq.link import Link
from dragoman.adapters.rabbitmq.streams import UNBORN, look
from dragoman.core.clock import from_wall_clock, to_wall_clock
from dragoman.core.errors import BrokerUnavailable, ChannelNotFound
from dragoman.core.progress import Progress

DURABLE: dict[str, Any] = {
    "x-queue-type": "stream",
    "x-max-length-bytes": 1_000_000,
    "x-stream-max-segment-size-bytes": 500_000,
}
TEMPORARY: dict[str, Any] = {
    "x-queue-type": "classic",
    "x-max-length": 1,
    "x-overflow": "drop-head",
    "x-expires": 600_000,
}
RENEW = 60.0
"""Seconds after which a temporary one is declared again, so that it does not expire."""
LOOKS = 10
REST = 0.01


async def begin(link: Link, queue: str, temporary: bool) -> bytes | None:
    """Make it if it is not there, and give its record: for the one who owns the partition."""
    if temporary:
        await renew(link, queue)
        return await load(link, queue, temporary)
    try:
        async with link.borrowed() as pipe:
            await pipe.queue_declare(queue, passive=True)
    except ChannelNotFound:
        await _bear(link, queue)
        return None
    try:
        return await load(link, queue, temporary)
    except BrokerUnavailable:
        await _bear(link, queue)
        return await load(link, queue, temporary)


async def _bear(link: Link, queue: str) -> None:
    async with link.borrowed(confirms=True) as pipe:
        await pipe.bear(queue, DURABLE)


async def renew(link: Link, queue: str) -> None:
    async with link.borrowed() as pipe:
        await pipe.queue_declare(queue, durable=True, arguments=TEMPORARY)


async def load(link: Link, queue: str, temporary: bool) -> bytes | None:
    """The record; ``None`` if there is none yet."""
    try:
        if temporary:
            return await _peek(link, queue)
        last = (await look(link, queue, "last", patience=UNBORN))[-1].body
        # One that was only slow to answer was taken for unborn: then a second birth stands behind the record.
        return last or await _last_of_all(link, queue)
    except ChannelNotFound:
        return None


async def _last_of_all(link: Link, queue: str) -> bytes | None:
    records = await look(link, queue, "first")
    return next((each.body for each in reversed(records) if each.body), None)


async def _peek(link: Link, queue: str) -> bytes | None:
    """Whoever looks at it holds it for a moment, so one that is not there is looked for again."""
    async with link.borrowed() as pipe:
        for _ in range(LOOKS):
            found = await pipe.basic_get(queue)
            if isinstance(found.delivery, Basic.GetOk):
                await pipe.basic_nack(found.delivery.delivery_tag or 0, requeue=True)
                return found.body
            await asyncio.sleep(REST)
    return None


def written(progress: Progress, count_deliveries: bool) -> bytes:
    """``cursor`` is how far was delivered: whoever takes over counts that as tried."""
    return json.dumps(
        {
            "position": progress.position,
            "cursor": progress.cursor if count_deliveries else progress.position,
            "tried": progress.tried,
            "returned": progress.returned,
            "aside": {offset: (to_wall_clock(due), tried) for offset, (due, tried) in progress.aside.items()},
        }
    ).encode()


def read(record: bytes) -> Progress:
    """As the last owner left it."""
    found = json.loads(record)
    progress = Progress(found["position"])
    progress.cursor = found["cursor"]
    progress.tried = {int(offset): tried for offset, tried in found["tried"].items()}
    progress.returned = {int(offset): tried for offset, tried in found["returned"].items()}
    for offset, (due, tried) in found["aside"].items():
        progress.put_aside(int(offset), from_wall_clock(due), tried)
    return progress
