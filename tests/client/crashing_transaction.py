"""A program that copies orders to receipts in transactions of Kafka and, if told so, dies in one of them.

python crashing_transaction.py URL REGISTRY CHANNEL POINT
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, Any

from dragoman import Client, Producer, To, endpoint, record
from dragoman.adapters.kafka import KafkaBroker
from dragoman.core.message import Message, Position

URL, REGISTRY, CHANNEL, POINT = sys.argv[1:5]


@record
class Order:
    number: int


@record
class Receipt:
    number: int


class FatalBroker(KafkaBroker):
    async def transact(
        self, messages: Sequence[Message], *arguments: Any, **named: Any
    ) -> Sequence[Position | None]:
        if POINT == "before the commit" and any(b"5" in (each.key or b"") for each in messages):
            os.kill(os.getpid(), signal.SIGKILL)
        positions = await super().transact(messages, *arguments, **named)
        if POINT == "after the commit":
            os.kill(os.getpid(), signal.SIGKILL)
        return positions


failed: set[int] = set()


@endpoint(CHANNEL, group=f"{CHANNEL}-copy", transactional=True, reply_to=f"{CHANNEL}-replies")
async def copy(order: Order, receipts: Annotated[Producer[Receipt], To(f"{CHANNEL}-receipts")]) -> Receipt:
    await receipts.publish(Receipt(order.number), key=str(order.number))
    if order.number % 2 and order.number not in failed:
        failed.add(order.number)
        raise ValueError("The first time it never works.")
    return Receipt(order.number)


async def main() -> None:
    broker = FatalBroker(URL)
    await broker.connect()
    async with Client(broker, REGISTRY, [copy]) as client:
        await client.run()
    await broker.close()


if __name__ == "__main__":
    asyncio.run(main())
