"""A process that moves numbers from one channel to another in transactions, until it is killed.

``python -m tests.brokers.kafka.transacting URL FROM TO GROUP``: a line with ``begin`` names an offset that is
about to be moved, one with ``done`` an offset that was.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

from dragoman.adapters.kafka import KafkaBroker
from dragoman.core.broker import Subscription
from dragoman.core.errors import Revoked
from dragoman.core.message import Message


async def main(url: str, source: str, target: str, group: str) -> None:
    broker = KafkaBroker(url)
    await broker.connect()
    # Ends the open transaction of a killed one, which would hold the group's offsets back for 30 seconds.
    await broker.marked(group)
    receiver = await broker.subscribe(Subscription((source,), group))
    while True:
        for message in await receiver.receive(1, 1.0):
            print(f"begin {message.offset}", flush=True)
            moved = [Message(target, message.payload), Message(target, message.payload)]
            # On a busy machine the member may be taken for dead: then the message comes again.
            with contextlib.suppress(Revoked):
                await broker.transact(moved, receiver, [message], (group, message.offset or 0))
                print(f"done {message.offset}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
