"""Typed records of nine fields over Redis Streams: Dragoman, FastStream, and redis-py moving the same bytes.

One server with ``appendonly yes`` and ``appendfsync everysec``, one process. All acknowledge by hand after
handling. All publish in batches of 500: ours by ``publish_many``, FastStream and the bare client by a
pipeline. The bare client reads with XREADGROUP, 500 at a time, and acknowledges them with one XACK.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from broker_race import BATCH, GROUP, OrderModel, Race, Times, model, until
from redis.asyncio import Redis
from tests.services.redis import Redis as RedisServer


class Quick(RedisServer):
    """As most servers are run: to the disk every second."""

    def command(self) -> Sequence[str]:
        return [word.replace("always", "everysec") for word in super().command()]


async def bare(url: str, name: str, count: int, payload: bytes) -> Times:
    client = Redis.from_url(url)
    await client.xgroup_create(name, GROUP, id="0", mkstream=True)
    started = time.perf_counter()
    for _ in range(0, count, BATCH):
        async with client.pipeline(transaction=True) as pipe:
            for _ in range(BATCH):
                pipe.xadd(name, {b"v": payload})
            await pipe.execute()
    publish = time.perf_counter() - started
    started, handled = time.perf_counter(), 0
    while handled < count:
        for _, entries in await client.xreadgroup(GROUP, "one", {name: ">"}, count=BATCH, block=1000):
            handled += len(entries)
            await client.xack(name, GROUP, *(id for id, _ in entries))
    consume = time.perf_counter() - started
    await client.aclose()
    return Times(publish, consume)


async def faststream(url: str, name: str, count: int) -> Times:
    from faststream import AckPolicy
    from faststream.redis import RedisBroker, StreamSub

    broker = RedisBroker(url, logger=None)
    handled = 0

    @broker.subscriber(
        stream=StreamSub(name, group=GROUP, consumer="one", max_records=BATCH, last_id=">"),
        ack_policy=AckPolicy.NACK_ON_ERROR,
    )
    async def on_order(order: OrderModel) -> None:
        nonlocal handled
        handled += 1

    orders = [model(number) for number in range(count)]
    client = Redis.from_url(url)
    await broker.connect()
    started = time.perf_counter()
    for start in range(0, count, BATCH):
        async with client.pipeline() as pipe:
            for each in orders[start : start + BATCH]:
                await broker.publish(each, stream=name, pipeline=pipe)
            await pipe.execute()
    publish = time.perf_counter() - started
    await client.xgroup_create(name, GROUP, id="0")
    await client.aclose()
    started = time.perf_counter()
    await broker.start()
    await until(lambda: handled >= count)
    consume = time.perf_counter() - started
    await broker.stop()
    return Times(publish, consume)


def main() -> None:
    Race(__doc__, Quick, faststream, bare, "redis-py").run()


if __name__ == "__main__":
    main()
