"""Publish and consume over one broker, by us, by a peer and by the bare client: what the races share."""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import count as counted
from pathlib import Path

from bench_delivery import Order, Status, order
from pydantic import BaseModel
from tests.services.server import Server

from dragoman import Client, endpoint
from dragoman.core.channel import Channel

BATCH = 500
GROUP = "bench"


class AddressModel(BaseModel):
    street: str
    city: str
    country: str


class OrderModel(BaseModel):
    """The same record as FastStream takes it."""

    order_id: int
    customer: str
    total: float
    paid: bool
    address: AddressModel
    tags: list[str]
    status: Status
    placed_at: datetime
    note: str | None = None


def model(number: int) -> OrderModel:
    value = order(number)
    plain = {**asdict(value), "status": value.status.value, "placed_at": value.placed_at.isoformat()}
    return OrderModel.model_validate(plain)


@dataclass
class Times:
    """Seconds for all messages: until they are accepted, and then until they are handled and settled."""

    publish: float
    consume: float


def frame_of_one() -> bytes:
    """The bytes of one of our messages."""

    async def run() -> bytes:
        async with Client("memory://frame", "memory://", []) as client:
            await client.broker.create(Channel("frame", 1))
            await (await client.producer("frame", Order)).publish(order(1))
            return bytes(client.broker.log().read("frame", 0, 0, 1).values)

    return asyncio.run(run())


async def ours(url: str, name: str, count: int) -> Times:
    """Typed records through the client: encoded under a contract, decoded, handled, acknowledged."""
    handled = 0

    @endpoint(name, group=GROUP)
    async def on_order(order: Order) -> None:
        nonlocal handled
        handled += 1

    orders = [order(number) for number in range(count)]
    async with Client(url, "memory://", []) as client:
        await client.broker.create(Channel(name, 1))
        producer = await client.producer(name, Order)
        started = time.perf_counter()
        for start in range(0, count, BATCH):
            await producer.publish_many(orders[start : start + BATCH])
        publish = time.perf_counter() - started
    started = time.perf_counter()
    # The registry is new: the messages above have the id that the same class gets again.
    async with Client(url, "memory://", [on_order]) as client:
        while handled < count or any(lag.behind for lag in await client.broker.lag(name, GROUP)):
            await asyncio.sleep(0.01)
        return Times(publish, time.perf_counter() - started)


async def until(done: Callable[[], bool]) -> None:
    while not done():
        await asyncio.sleep(0.001)


def best(rounds: int, run: Callable[[], Awaitable[Times]]) -> Times:
    """The quickest of some rounds: the others met more of the machine's noise."""
    found = []
    for _ in range(rounds):
        gc.collect()
        found.append(asyncio.run(run()))  # type: ignore[arg-type]
    return Times(min(each.publish for each in found), min(each.consume for each in found))


def show(rows: list[tuple[str, int, Times]]) -> None:
    """Messages a second, each beside the peers."""
    print("| client | published per second | consumed per second | both per second | ratio |")
    print("| --- | ---: | ---: | ---: | ---: |")
    _, first_count, first = rows[0]
    mine = first_count / (first.publish + first.consume)
    for name, count, times in rows:
        both = count / (times.publish + times.consume)
        print(
            f"| {name} | {count / times.publish:,.0f} | {count / times.consume:,.0f} | {both:,.0f} |"
            f" {mine / both:.2f} |"
        )


@dataclass(frozen=True)
class Race:
    """Against FastStream and the bare client, on one server. Both get the server's URL, a fresh name and how
    many messages to move; slow ones move a fraction, ``1 / share``, of ours."""

    about: str
    server: Callable[[Path], Server]
    faststream: Callable[[str, str, int], Awaitable[Times]]
    bare: Callable[[str, str, int, bytes], Awaitable[Times]]
    library: str
    rounds: int = 3
    faststream_share: int = 5
    bare_share: int = 1
    scheme: str | None = None
    """Of the URL as the others want it, where that is not ours."""

    def run(self) -> None:
        parser = argparse.ArgumentParser(description=self.about)
        parser.add_argument("--count", type=int, default=20_000)
        parser.add_argument("--rounds", type=int, default=self.rounds)
        given = parser.parse_args()
        with tempfile.TemporaryDirectory() as folder:
            server = self.server(Path(folder) / "server")
            server.start()
            try:
                show(self._rows(server.url, given.count, given.rounds))
            finally:
                server.stop()

    def _rows(self, url: str, count: int, rounds: int) -> list[tuple[str, int, Times]]:
        payload, names = frame_of_one(), (f"c{number}" for number in counted())
        theirs = url if self.scheme is None else url.replace(url.partition("://")[0], self.scheme, 1)
        fewer, bare_count = (max(BATCH, count // share) for share in (self.faststream_share, self.bare_share))
        return [
            ("Dragoman, typed", count, best(rounds, lambda: ours(url, next(names), count))),
            ("FastStream, typed", fewer, best(rounds, lambda: self.faststream(theirs, next(names), fewer))),
            (
                f"{self.library}, the same bytes",
                bare_count,
                best(rounds, lambda: self.bare(theirs, next(names), bare_count, payload)),
            ),
        ]
