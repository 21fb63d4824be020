"""A program that handles orders and, if told so, dies without warning at one point of its work.

    python crashing.py FOLDER POINT

It leaves a line in FOLDER/effects for each order it handles, and ends when nothing is left to do.
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
from dragoman.adapters.embedded import EmbeddedBroker
from dragoman.core.broker import Subscription
from dragoman.core.message import Message, Position

FOLDER, POINT = Path(sys.argv[1]), sys.argv[2]
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


class FatalBroker(EmbeddedBroker):
    async def publish(self, messages: Sequence[Message], delay: float = 0.0) -> Sequence[Position | None]:
        channel = messages[0].channel
        reached(f"before {channel}")
        positions = await super().publish(messages, delay)
        reached(f"after {channel}")
        return positions

    async def subscribe(self, subscription: Subscription) -> Any:
        receiver = await super().subscribe(subscription)
        acknowledge = receiver.acknowledge

        async def fatal(messages: Sequence[Message]) -> None:
            reached("before acknowledge")
            await acknowledge(messages)
            reached("after acknowledge")

        receiver.acknowledge = fatal  # type: ignore[method-assign]
        return receiver


@endpoint("orders", reply_to="receipts", options=EndpointOptions(retry=RetryOptions(attempts=1)))
async def on_order(order: Order) -> Receipt:
    reached("before handling")
    if order.number == POISON:
        raise ValueError("This one never works.")
    with (FOLDER / "effects").open("a") as effects:
        effects.write(f"{order.number}\n")
    reached("after handling")
    return Receipt(order.number)


async def main() -> None:
    broker = FatalBroker(f"embedded://{FOLDER / 'broker'}")
    await broker.connect()
    async with Client(broker, f"sqlite://{FOLDER / 'registry.db'}", [on_order]):
        while any(lag.behind for lag in await broker.lag("orders", "default")):
            await asyncio.sleep(0.01)
    await broker.close()


if __name__ == "__main__":
    asyncio.run(main())
