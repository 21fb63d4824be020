"""A program that handles orders and, if told so, dies without warning at one point of its work.

    python crashing.py FOLDER POINT URL PREFIX...

The channels are PREFIX.orders and so on, on the broker of the URL. It leaves a line in FOLDER/PREFIX.effects
for each order it handles, and ends when nothing is left to do.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman import Client, EndpointOptions, RetryOptions, endpoint, record
from dragoman.core.broker import Broker, Subscription
from dragoman.core.errors import BrokerError
from dragoman.core.loading import BROKERS, load, scheme_of
from dragoman.core.message import Message, Position

FOLDER, POINT, URL, PREFIXES = Path(sys.argv[1]), *sys.argv[2:4], sys.argv[4:]
POISON = 7


@record
class Order:
    number: int


@record
class Receipt:
    number: int


def reached(point: str) -> None:
    if point == POINT:
        os.kill(os.getpid(), signal.SIGKILL)


def fatal(broker: Any) -> Broker:
    """The same broker, with points before and after what it is asked to do."""
    publish, subscribe = broker.publish, broker.subscribe

    async def fatal_publish(messages: Sequence[Message], delay: float = 0.0) -> Sequence[Position | None]:
        _, _, channel = messages[0].channel.partition(".")
        reached(f"before {channel}")
        positions: Sequence[Position | None] = await publish(messages, delay)
        reached(f"after {channel}")
        return positions

    async def fatal_subscribe(subscription: Subscription) -> Any:
        receiver = await subscribe(subscription)
        acknowledge = receiver.acknowledge

        async def fatal_acknowledge(messages: Sequence[Message]) -> None:
            reached("before acknowledge")
            await acknowledge(messages)
            reached("after acknowledge")

        receiver.acknowledge = fatal_acknowledge
        return receiver

    broker.publish, broker.subscribe = fatal_publish, fatal_subscribe
    made: Broker = broker
    return made


def handler(prefix: str) -> object:
    @endpoint(
        f"{prefix}.orders",
        group=prefix,
        reply_to=f"{prefix}.receipts",
        options=EndpointOptions(retry=RetryOptions(attempts=1)),
    )
    async def on_order(order: Order) -> Receipt:
        reached("before handling")
        if order.number == POISON:
            raise ValueError("This one never works.")
        with (FOLDER / f"{prefix}.effects").open("a") as effects:
            effects.write(f"{order.number}\n")
        reached("after handling")
        return Receipt(order.number)

    return on_order


async def behind(broker: Broker, prefix: str) -> bool:
    try:
        return any(lag.behind for lag in await broker.lag(f"{prefix}.orders", prefix))
    except BrokerError:
        return True  # A server that has just started may not know yet.


async def main() -> None:
    broker = fatal(load(BROKERS, scheme_of(URL))(URL))
    await broker.connect()
    async with Client(broker, f"sqlite://{FOLDER / 'registry.db'}", map(handler, PREFIXES)):
        for prefix in PREFIXES:
            while await behind(broker, prefix):
                await asyncio.sleep(0.02)
    await broker.close()


if __name__ == "__main__":
    asyncio.run(main())
