"""A producer process of the demo: ``python -m dragoman.cli.demo.producer BROKER REGISTRY FIRST COUNT``.

Beside good requests it sends some that no handler can take, and some that are no messages at all.
"""

from __future__ import annotations

import asyncio
import random
import sys

from dragoman import Client, Message
from dragoman.cli.demo.records import REQUESTS, LoanRequest

BATCH = 50
REFUSED_EVERY = 400
CORRUPT_EVERY = 250
_CUSTOMERS = ("Ada", "Blaise", "Carl", "Daniel", "Emmy", "Felix", "Grete", "Hedy")


def request(number: int) -> LoanRequest:
    amount = -1.0 if number % REFUSED_EVERY == 0 else float(random.randrange(1_000, 90_000))
    return LoanRequest(number, random.choice(_CUSTOMERS), amount, random.choice((12, 24, 36, 60)))


def corrupt(number: int) -> Message:
    """A frame that ends too early, or something that never was one."""
    payload = b"\x00\x00\x00\x00\x01\x02" if number % 2 else b'{"request_id": 1}'
    return Message(REQUESTS, payload, key=str(number).encode())


async def main(broker: str, registry: str, first: int, count: int) -> None:
    async with Client(broker, registry) as client:
        for start in range(first, first + count, BATCH):
            numbers = range(start, min(start + BATCH, first + count))
            good = [request(number) for number in numbers if number % CORRUPT_EVERY]
            await client.publish_many(REQUESTS, good, key=lambda one: one.customer)
            await client.broker.publish([corrupt(number) for number in numbers if not number % CORRUPT_EVERY])
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
