"""Typed records through Kafka: Dragoman beside FastStream and the bare client, on one server, equally safe.

All produce idempotently with acks=all, and commit by hand after handling. Dragoman writes a record of nine
fields as Avro under its contract and hands the class to an endpoint; FastStream does the same with pydantic
and JSON; the bare client moves Dragoman's bytes and looks at nothing. All have sent one message before the
clock starts, so that nobody's connecting is measured. Rates are per second on the wall; in
brackets, per second of this process's processor time, which neighbours on a shared machine do not blur.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from bench_delivery import Counter, Order, order
from confluent_kafka import Consumer, Producer

from dragoman import Client, endpoint, record
from dragoman.client.options import ClientOptions
from dragoman.core.broker import Broker
from dragoman.core.channel import Channel
from dragoman.core.loading import BROKERS, load

BATCH = 1_000
AT_ONCE = 4
WINDOW = 4_096


class Rate(NamedTuple):
    wall: float
    processor: float

    def __str__(self) -> str:
        return f"{self.wall:,.0f} ({self.processor:,.0f})"


class Watch:
    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def stop(self, count: int) -> Rate:
        return Rate(
            count / (time.perf_counter() - self._began[0]), count / (time.process_time() - self._began[1])
        )


@contextmanager
def set_aside() -> Iterator[None]:
    """The values that wait to be sent are the benchmark's: Python is not to look through them meanwhile."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def in_batches(values: Sequence[Any], send: Callable[[Sequence[Any]], Awaitable[Any]]) -> Rate:
    """Some batches under way at once, as several tasks of one service would have them."""
    batches = iter([values[start : start + BATCH] for start in range(0, len(values), BATCH)])

    async def work() -> None:
        for batch in batches:
            await send(batch)

    watch = Watch()
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return watch.stop(len(values))


async def handled(counter: Counter, count: int) -> Rate:
    """From the first message on: joining a group takes as long as the server likes."""
    while not counter.handled:
        await asyncio.sleep(0.001)
    first, watch = counter.handled, Watch()
    while counter.handled < count:
        await asyncio.sleep(0.005)
    return watch.stop(count - first)


async def ours(server: str, channel: str, count: int) -> tuple[Rate, Rate]:
    counter = Counter()
    orders = [order(number) for number in range(count)]

    @endpoint(channel, group=channel)
    async def on_order(order: Order) -> None:
        counter.handled += 1

    with set_aside():
        async with Client(f"kafka://{server}", "memory://bench") as client:
            producer = await client.producer(channel, Order)
            await producer.publish(orders[0])
            produced = await in_batches(orders, producer.publish_many)
            options = ClientOptions(window=WINDOW)
            async with Client(client.broker, client.registry, [on_order], options=options):
                consumed = await handled(counter, count)
    return produced, consumed


async def faststream(server: str, topic: str, count: int) -> tuple[Rate, Rate]:
    from datetime import datetime

    from bench_delivery import Status
    from faststream import AckPolicy
    from faststream.confluent import KafkaBroker
    from pydantic import BaseModel

    class AddressModel(BaseModel):
        street: str
        city: str
        country: str

    class OrderModel(BaseModel):
        order_id: int
        customer: str
        total: float
        paid: bool
        address: AddressModel
        tags: list[str]
        status: Status
        placed_at: datetime
        note: str | None = None

    values = [OrderModel.model_validate(asdict(order(number))) for number in range(count)]
    counter = Counter()
    broker = KafkaBroker(
        server, acks="all", enable_idempotence=True, compression_type="lz4", linger_ms=2, logger=None
    )

    @broker.subscriber(
        topic, group_id=topic, auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR
    )
    async def on_order(order: OrderModel) -> None:
        counter.handled += 1

    with set_aside():
        await broker.connect()
        await broker.publish(values[0], topic=topic)
        produced = await in_batches(values, lambda batch: broker.publish_batch(*batch, topic=topic))
        await broker.start()
        consumed = await handled(counter, count)
    await broker.stop()
    return produced, consumed


def bare(server: str, topic: str, frame: bytes, count: int) -> tuple[Rate, Rate]:
    producer = Producer(
        {
            "bootstrap.servers": server,
            "enable.idempotence": True,
            "acks": "all",
            "compression.type": "lz4",
            "linger.ms": 2,
            "queue.buffering.max.messages": 500_000,
        }
    )
    confirmed = Counter()

    def report(error: object, message: object) -> None:
        confirmed.handled += error is None

    producer.produce(topic, frame)
    producer.flush()
    watch = Watch()
    for number in range(count):
        producer.produce(topic, frame, on_delivery=report)
        if number % BATCH == 0:
            producer.poll(0)
    producer.flush()
    assert confirmed.handled == count
    produced = watch.stop(count)
    settings = {"group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": server, **settings})
    consumer.subscribe([topic])
    done = len(consumer.consume(1, 30.0))
    watch = Watch()
    first = done
    while done < count:
        found = [message.value() for message in consumer.consume(WINDOW, 0.05)]
        if found:
            done += len(found)
            consumer.commit(asynchronous=False)
    consumed = watch.stop(count - first)
    consumer.close()
    return produced, consumed


@record
class Question:
    number: int


@record
class Answer:
    number: int


async def replies(server: str, count: int) -> list[float]:
    """Seconds that each request took, one after the other, with linger 0."""
    channel = f"questions-{uuid4().hex}"

    @endpoint(channel, group=channel)
    async def on_question(question: Question) -> Answer:
        return Answer(question.number)

    took = []
    async with Client(f"kafka://{server}?linger.ms=0", "memory://bench", [on_question]) as client:
        for number in range(count + 20):
            began = time.perf_counter()
            await client.request(channel, Question(number), reply=Answer)
            took.append(time.perf_counter() - began)
    return took[20:]


class Race(NamedTuple):
    """How fast one of them was, at its best: the rounds, which take turns, meet the machine's noise."""

    produced: Rate
    consumed: Rate

    def best(self, other: Race) -> Race:
        return Race(max(self.produced, other.produced), max(self.consumed, other.consumed))

    @property
    def both(self) -> Rate:
        """Messages that are produced and then consumed."""
        return Rate(*(1 / (1 / a + 1 / b) for a, b in zip(self.produced, self.consumed, strict=True)))


async def compare(server: str, count: int, partitions: int, rounds: int) -> None:
    broker: Broker = load(BROKERS, "kafka")(f"kafka://{server}")
    await broker.connect()

    async def topic(name: str) -> str:
        made = f"bench-{name}-{uuid4().hex[:8]}"
        await broker.create(Channel(made, partitions))
        return made

    mine: list[Race] = []
    raw: list[Race] = []
    frame = b""
    for _ in range(rounds):
        channel = await topic("ours")
        mine.append(Race(*await ours(server, channel, count)))
        log = broker.log()
        frame = bytes(log.read(channel, 0, 0, 1).values)
        log.close()
        raw.append(Race(*await asyncio.to_thread(bare, server, await topic("bare"), frame, count)))
    # Once is enough: it is not near, and takes long.
    peer = [Race(*await faststream(server, await topic("faststream"), max(1000, count // 20)))]
    await broker.close()
    print(f"{count:,} records of {len(frame)} bytes, {partitions} partitions, batches of {BATCH}\n")
    print("| messages per second | Dragoman | FastStream | bare client | to FastStream | to bare |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    best = [reduce(Race.best, races) for races in (mine, peer, raw)]
    for name in ("produced", "consumed", "both"):
        a, b, c = (getattr(each, name) for each in best)
        print(f"| {name} | {a} | {b} | {c} | {a.wall / b.wall:.1f} | {a.wall / c.wall:.0%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--server", help="host:port; without it one is started")
    parser.add_argument("--linger", help="group.coordinator.append.linger.ms of the server that is started")
    parser.add_argument("--replies", action="store_true", help="measure requests and replies alone")
    given = parser.parse_args()
    logging.disable(logging.WARNING)

    async def measure(server: str) -> None:
        if not given.replies:
            await compare(server, given.count, given.partitions, given.rounds)
        waits = sorted(await replies(server, 300))
        middle, slow = statistics.median(waits) * 1000, waits[-4] * 1000
        print(f"\nRequest and reply: p50 {middle:.1f} ms, p99 {slow:.1f} ms")

    if given.server:
        if given.linger is not None:
            parser.error("--linger is for a server that is started here")
        asyncio.run(measure(given.server))
        return
    from tests.services.kafka import Kafka

    class Tuned(Kafka):
        def settings(self) -> dict[str, str]:
            own = {} if given.linger is None else {"group.coordinator.append.linger.ms": given.linger}
            return super().settings() | own

    with tempfile.TemporaryDirectory() as folder:
        kafka = Tuned(Path(folder) / "kafka")
        kafka.start()
        try:
            asyncio.run(measure(f"127.0.0.1:{kafka.port}"))
        finally:
            kafka.stop()


if __name__ == "__main__":
    main()
