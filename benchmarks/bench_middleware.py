"""What middleware costs: from publish to acknowledged on ``memory://``, with all of it and with none.

*All* is expiry, a condition on a header and on the payload, dead letters, retry with backoff, deduplication
in memory; tracing is off. *Default* is what every endpoint has. *None* is an endpoint that is only decoded
and called. The messages are the same: with an expiry, and the header that the condition looks at. Rates are
per second of CPU time, the best of some rounds that take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

from dragoman import Client, EndpointOptions, RetryOptions, endpoint, record
from dragoman.client.chain import Chain
from dragoman.client.middleware.deduplicate import Deduplicate

BATCH = 500


@record
class Order:
    order_id: int
    customer: str
    total: float
    paid: bool
    tags: list[str]
    note: str | None = None


ALL = EndpointOptions(
    consumed_if='header.region == "eu" and payload.total > 100',
    retry=RetryOptions(attempts=5, elapsed=60.0),
)


@contextmanager
def bare() -> Iterator[None]:
    """Nothing around the endpoint but reading the message."""

    with patch.object(Chain, "stages", lambda self: ()):
        yield


async def deliver(count: int, options: EndpointOptions, middleware: list[Any]) -> float:
    """CPU seconds from the first publish until the broker knows that all are handled."""
    handled = 0

    @endpoint("orders", group="bench", options=options, middleware=middleware)
    async def on_order(order: Order) -> None:
        nonlocal handled
        handled += 1

    orders = [Order(n, "customer-4711", 129.95, True, ["express", "gift"], "ring") for n in range(count)]
    # The orders are the benchmark's: Python is not to look through them again and again.
    gc.freeze()
    expires = str(int((time.time() + 3600) * 1000)).encode()
    async with Client("memory://bench", "memory://", [on_order]) as client:
        producer = await client.producer("orders", Order)
        started = time.process_time()
        for start in range(0, count, BATCH):
            pairs = (("expires-at", expires), ("region", b"eu"))
            await producer.publish_many(orders[start : start + BATCH], headers=pairs)
        while handled < count or any(lag.behind for lag in await client.broker.lag("orders")):
            await asyncio.sleep(0)
        return time.process_time() - started


def one_round(name: str, count: int) -> float:
    gc.unfreeze()
    gc.collect()
    with bare() if name == "none" else nullcontext():
        everything = name == "all"
        options = ALL if everything else EndpointOptions()
        return asyncio.run(deliver(count, options, [Deduplicate()] if everything else []))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    names = ("none", "default", "all")
    seconds: dict[str, float] = dict.fromkeys(names, float("inf"))
    for _ in range(given.rounds):
        for name in names:
            seconds[name] = min(seconds[name], one_round(name, given.count))
    print("| middleware | messages per CPU second | time beside none |")
    print("| --- | ---: | ---: |")
    for name in names:
        rate, ratio = given.count / seconds[name], seconds[name] / seconds["none"]
        print(f"| {name} | {rate:,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
