"""Publish to handled-and-acknowledged through ``memory://``, beside FastStream's consume path alone.

One process, one core. Ours encodes a record of nine fields to Avro under its contract, publishes it, receives
it, decodes it to the class, calls the endpoint with retry and dead letter in place, and acknowledges it.
FastStream is given ready-made messages with JSON bodies: it parses, validates with pydantic and calls the
handler; its broker, its test recorder and its logging are left out. Rates are per second of CPU time: on a
shared machine the clock measures the neighbours, too.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import Enum

from dragoman import Client, endpoint, record

BATCH = 500


class Status(Enum):
    NEW = "NEW"
    PAID = "PAID"
    SENT = "SENT"


@record
class Address:
    street: str
    city: str
    country: str


@record
class Order:
    order_id: int
    customer: str
    total: float
    paid: bool
    address: Address
    tags: list[str]
    status: Status
    placed_at: datetime
    note: str | None = None


def order(number: int) -> Order:
    return Order(
        number,
        "customer-4711",
        129.95,
        True,
        Address("Main Street 1", "Springfield", "Utopia"),
        ["express", "gift", "returning"],
        Status.PAID,
        datetime(2026, 1, 1, 12, 30, tzinfo=UTC),
        "leave it at the door",
    )


@dataclass
class Counter:
    handled: int = 0


async def ours(count: int, send: Callable[[Client, list[Order]], Awaitable[None]]) -> float:
    """CPU seconds from the first publish until the broker knows that all are handled."""
    counter = Counter()

    @endpoint("orders", group="bench")
    async def on_order(order: Order) -> None:
        counter.handled += 1

    orders = [order(number) for number in range(count)]
    async with Client("memory://bench", "memory://", [on_order]) as client:
        started = time.process_time()
        await send(client, orders)
        while counter.handled < count or any(lag.behind for lag in await client.broker.lag("orders")):
            await asyncio.sleep(0)
        return time.process_time() - started


async def in_batches(client: Client, orders: list[Order]) -> None:
    producer = await client.producer("orders", Order)
    for start in range(0, len(orders), BATCH):
        await producer.publish_many(orders[start : start + BATCH])


async def one_by_one(client: Client, orders: list[Order]) -> None:
    producer = await client.producer("orders", Order)
    for each in orders:
        await producer.publish(each)


async def faststream(count: int) -> float:
    """CPU seconds that its subscriber takes to consume ready-made messages."""
    from faststream._internal.logger.logger_proxy import EmptyLoggerObject
    from faststream.confluent import KafkaBroker, TestKafkaBroker
    from faststream.confluent.testing import build_message
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

    broker = KafkaBroker(logger=None)
    counter = Counter()

    @broker.subscriber("orders", group_id="bench")
    async def on_order(order: OrderModel) -> None:
        counter.handled += 1

    body = OrderModel.model_validate(_plain(order(1))).model_dump(mode="json")
    async with TestKafkaBroker(broker):
        # The test broker logs to a mock and records each call: neither is part of the consume path.
        broker.config.logger.logger = EmptyLoggerObject()
        subscriber = broker.subscribers[0]
        for call in subscriber.calls:
            call.handler.reset_test()
        messages = [await build_message(body, "orders") for _ in range(count)]
        started = time.process_time()
        for message in messages:
            await subscriber.consume(message)
        seconds = time.process_time() - started
    assert counter.handled == count
    return seconds


def _plain(value: Order) -> dict[str, object]:
    return {
        **asdict(value),
        "status": value.status.value,
        "placed_at": value.placed_at.isoformat(),
    }


def best(rounds: int, run: Callable[[], Awaitable[float]]) -> float:
    """The quickest of some rounds: the others met more of the machine's noise."""
    seconds = []
    for _ in range(rounds):
        gc.collect()
        seconds.append(asyncio.run(run()))  # type: ignore[arg-type]
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    count, rounds = given.count, given.rounds
    peer_count = max(1, count // 5)
    batches = count / best(rounds, lambda: ours(count, in_batches))
    single = count / best(rounds, lambda: ours(count, one_by_one))
    peer = peer_count / best(rounds, lambda: faststream(peer_count))
    rows = [
        (f"Dragoman, publish in batches of {BATCH} to acknowledged", batches),
        ("Dragoman, publish one by one to acknowledged", single),
        ("FastStream, consume alone, without mocks and logs", peer),
    ]
    print("| path | messages per CPU second | ratio |")
    print("| --- | ---: | ---: |")
    for name, rate in rows:
        print(f"| {name} | {rate:,.0f} | {rate / peer:.1f} |")


if __name__ == "__main__":
    main()
