"""Reading a range of one partition's history, whole and in order."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from nats.aio.msg import Msg

from dragoman.adapters.nats.connection import Link
from dragoman.adapters.nats.errors import ours
from dragoman.adapters.nats.wire import message_of
from dragoman.core.errors import BrokerUnavailable
from dragoman.core.message import Message

SECOND = 1_000_000_000


async def read_range(
    link: Link,
    place: tuple[str, int],
    start: int,
    end: int,
    count: int,
    size: int,
    *,
    bare: bool = False,
) -> list[Message]:
    """From ``start`` on, before ``end``, ``count`` messages and about ``size`` bytes at most; ``bare`` ones
    come without their payload."""
    collector = Collector(place, end, min(count, end - start), size)
    client = link.client
    with ours(channel=place[0], partition=place[1]):
        stream = link.names.stream(*place)
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox, cb=collector.arrive)
        try:
            consumer = await _consumer(link, stream, start, bare)
            body = {"batch": collector.count, "no_wait": True}
            await client.publish(
                link.subject(f"CONSUMER.MSG.NEXT.{stream}.{consumer}"), json.dumps(body).encode(), inbox
            )
            async with asyncio.timeout(link.options.timeout):
                await collector.done.wait()
        finally:
            if link.connected:
                await subscription.unsubscribe()
        if link.connected:
            await client.publish(link.subject(f"CONSUMER.DELETE.{stream}.{consumer}"))
    if collector.torn:
        raise BrokerUnavailable("Messages were lost on their way.", next="Read them again.", channel=place[0])
    return collector.found


async def _consumer(link: Link, stream: str, start: int, bare: bool) -> str:
    config: dict[str, Any] = {
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": start + 1,
        "ack_policy": "none",
        "replay_policy": "instant",
        "max_deliver": -1,
        "inactive_threshold": 30 * SECOND,
        "mem_storage": True,
        "num_replicas": 1,
    }
    if bare:
        config["headers_only"] = True
    found = await link.request(f"CONSUMER.CREATE.{stream}", stream_name=stream, config=config)
    return str(found["name"])


class Collector:
    """Messages that arrive one by one, until there are enough, or no more."""

    def __init__(self, place: tuple[str, int], end: int, count: int, size: int) -> None:
        self.found: list[Message] = []
        self.done = asyncio.Event()
        self.count = count
        self.torn = False
        self._place = place
        self._end = end
        self._size = size
        self._delivered = 0

    async def arrive(self, message: Msg) -> None:
        if self.done.is_set():
            return
        reply = message.reply
        if not reply.startswith("$JS.ACK."):
            self.done.set()
            return
        parts = reply.split(".")
        at = 5 if len(parts) == 9 else 7
        self._delivered += 1
        self.torn = self.torn or int(parts[at + 1]) != self._delivered
        sequence = int(parts[at])
        if sequence > self._end:
            self.done.set()
            return
        self.found.append(
            message_of(*self._place, sequence, int(parts[at + 2]) // 1_000_000, message.data, message.headers)
        )
        self._size -= len(message.data)
        if self.torn or sequence >= self._end or len(self.found) >= self.count or self._size <= 0:
            self.done.set()
