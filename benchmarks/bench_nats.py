"""Typed records of nine fields over NATS JetStream: Dragoman, FastStream, and nats-py moving the same bytes.

One server with streams on files, one process. Every message is confirmed by JetStream before a batch of 500
counts as published, and acknowledged by hand after handling. FastStream publishes 500 at once from as many
tasks and has a pull subscription of 500; the bare client publishes with ``publish_async``, fetches 500 at a
time and acknowledges them all with the last one.
"""

from __future__ import annotations

import asyncio
import time

import nats
from broker_race import BATCH, GROUP, OrderModel, Race, Times, model, until
from nats.js.api import AckPolicy as Acknowledge
from nats.js.api import ConsumerConfig, StorageType, StreamConfig
from tests.services.nats import Nats


async def make_stream(url: str, name: str) -> None:
    client = await nats.connect(url)
    config = StreamConfig(name=name, subjects=[name], storage=StorageType.FILE)
    await client.jetstream().add_stream(config)
    await client.close()


async def bare(url: str, name: str, count: int, payload: bytes) -> Times:
    await make_stream(url, name)
    client = await nats.connect(url)
    stream = client.jetstream(publish_async_max_pending=2 * BATCH)
    started = time.perf_counter()
    for _ in range(0, count, BATCH):
        futures = [await stream.publish_async(name, payload, wait_stall=30.0) for _ in range(BATCH)]
        await asyncio.gather(*futures)
    publish = time.perf_counter() - started
    subscription = await stream.pull_subscribe(
        name, GROUP, config=ConsumerConfig(ack_policy=Acknowledge.ALL, max_ack_pending=2 * BATCH)
    )
    started, handled = time.perf_counter(), 0
    while handled < count:
        messages = await subscription.fetch(BATCH, timeout=5.0)
        handled += len(messages)
        await messages[-1].ack_sync()
    consume = time.perf_counter() - started
    await client.close()
    return Times(publish, consume)


async def faststream(url: str, name: str, count: int) -> Times:
    from faststream import AckPolicy
    from faststream.nats import JStream, NatsBroker, PullSub

    await make_stream(url, name)
    broker = NatsBroker(url, logger=None)
    stream = JStream(name, declare=False)
    handled = 0

    @broker.subscriber(
        name,
        stream=stream,
        durable=GROUP,
        pull_sub=PullSub(batch_size=BATCH),
        ack_policy=AckPolicy.NACK_ON_ERROR,
    )
    async def on_order(order: OrderModel) -> None:
        nonlocal handled
        handled += 1

    orders = [model(number) for number in range(count)]
    await broker.connect()
    started = time.perf_counter()
    for start in range(0, count, BATCH):
        await asyncio.gather(
            *(broker.publish(each, name, stream=name) for each in orders[start : start + BATCH])
        )
    publish = time.perf_counter() - started
    started = time.perf_counter()
    await broker.start()
    await until(lambda: handled >= count)
    consume = time.perf_counter() - started
    await broker.stop()
    return Times(publish, consume)


def main() -> None:
    Race(__doc__, Nats, faststream, bare, "nats-py").run()


if __name__ == "__main__":
    main()
