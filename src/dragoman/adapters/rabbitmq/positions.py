"""How far a group is in one partition: one record in a quorum queue that keeps only the last."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from pamqp.commands import Basic

from dragoman.adapters.rabbitmq.link import Link
from dragoman.adapters.rabbitmq.pipe import Pipe
from dragoman.core.errors import ChannelNotFound
from dragoman.core.progress import Progress

NEVER = 2**31 - 1
"""Reading counts as a delivery. Newer servers drop what was delivered 20 times, unless told otherwise."""
UNUSED = 600_000
"""Milliseconds after which what a temporary group left behind is removed."""
RENEW = 60.0
LOOKS = 10
REST = 0.01


async def declare(pipe: Pipe, queue: str, temporary: bool) -> None:
    """Also tells the server that a temporary one is still in use."""
    arguments: dict[str, Any] = {
        "x-queue-type": "quorum",
        "x-max-length": 1,
        "x-overflow": "drop-head",
        "x-delivery-limit": NEVER,
    }
    if temporary:
        arguments["x-expires"] = UNUSED
    await pipe.queue_declare(queue, durable=True, arguments=arguments)


async def look(pipe: Pipe, queue: str) -> bytes | None:
    """The record. Whoever looks at it holds it for a moment, so one that is not there is looked for again."""
    for _ in range(LOOKS):
        found = await pipe.basic_get(queue)
        if isinstance(found.delivery, Basic.GetOk):
            await pipe.basic_nack(found.delivery.delivery_tag or 0, requeue=True)
            return found.body
        await asyncio.sleep(REST)
    return None


async def load(link: Link, queue: str) -> bytes | None:
    """For those who do not own the partition: ``None`` if nobody ever did."""
    try:
        async with link.borrowed() as pipe:
            return await look(pipe, queue)
    except ChannelNotFound:
        return None


def written(progress: Progress, count_deliveries: bool) -> bytes:
    """``cursor`` is how far was delivered: whoever takes over counts that as tried."""
    return json.dumps(
        {
            "position": progress.position,
            "cursor": progress.cursor if count_deliveries else progress.position,
            "tried": progress.tried,
            "returned": progress.returned,
            "aside": progress.aside,
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
        progress.put_aside(int(offset), due, tried)
    return progress
