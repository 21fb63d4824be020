"""Typed records of nine fields over RabbitMQ: Dragoman, FastStream, and aio-pika moving the same bytes.

One server, one process, one stream each, since that is what Dragoman's channels are made of. Every message is
persistent and confirmed before a batch of 500 counts as published, and acknowledged by hand after handling.
FastStream and aio-pika publish 500 at once from as many tasks and have a prefetch of 1000; aio-pika
acknowledges 100 messages with the last of them.
"""

from __future__ import annotations

import asyncio
import logging
import time

import aio_pika
from broker_race import BATCH, OrderModel, Race, Times, model, until
from tests.services.rabbitmq import Rabbitmq

PREFETCH = 1000
ACKNOWLEDGE = 100
STREAM = {"x-queue-type": "stream"}
FIRST = {"x-stream-offset": "first"}


async def bare(url: str, name: str, count: int, payload: bytes) -> Times:
    connection = await aio_pika.connect(url)
    channel = await connection.channel()
    await channel.set_qos(PREFETCH)
    queue = await channel.declare_queue(name, durable=True, arguments=STREAM)
    exchange, handled = channel.default_exchange, 0
    persistent = aio_pika.DeliveryMode.PERSISTENT
    started = time.perf_counter()
    for _ in range(0, count, BATCH):
        messages = [aio_pika.Message(payload, delivery_mode=persistent) for _ in range(BATCH)]
        await asyncio.gather(*(exchange.publish(message, name) for message in messages))
    publish = time.perf_counter() - started

    async def on_message(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        nonlocal handled
        handled += 1
        if handled % ACKNOWLEDGE == 0:
            await message.ack(multiple=True)

    started = time.perf_counter()
    await queue.consume(on_message, arguments=FIRST)
    await until(lambda: handled >= count)
    consume = time.perf_counter() - started
    await connection.close()
    return Times(publish, consume)


async def faststream(url: str, name: str, count: int) -> Times:
    from faststream import AckPolicy
    from faststream.rabbit import Channel, QueueType, RabbitBroker, RabbitQueue

    broker = RabbitBroker(url, logger=None, default_channel=Channel(prefetch_count=PREFETCH))
    queue = RabbitQueue(name, durable=True, queue_type=QueueType.STREAM)
    handled = 0

    @broker.subscriber(queue, consume_args=FIRST, ack_policy=AckPolicy.NACK_ON_ERROR)
    async def on_order(order: OrderModel) -> None:
        nonlocal handled
        handled += 1

    orders = [model(number) for number in range(count)]
    await broker.connect()
    await broker.declare_queue(queue)
    started = time.perf_counter()
    for start in range(0, count, BATCH):
        batch = orders[start : start + BATCH]
        await asyncio.gather(*(broker.publish(each, name, persist=True) for each in batch))
    publish = time.perf_counter() - started
    started = time.perf_counter()
    await broker.start()
    await until(lambda: handled >= count)
    consume = time.perf_counter() - started
    await broker.stop()
    return Times(publish, consume)


def main() -> None:
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)
    Race(
        __doc__,
        Rabbitmq,
        faststream,
        bare,
        "aio-pika",
        rounds=2,
        faststream_share=4,
        bare_share=4,
        scheme="amqp",
    ).run()


if __name__ == "__main__":
    main()
