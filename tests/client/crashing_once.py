"""A program that books transfers once each and, if told so, dies without warning at one point of its work.

    python crashing_once.py FOLDER POINT COUNT

Each transfer changes a balance and writes a receipt to the outbox, in one transaction. It ends when all
transfers are acknowledged and all receipts are out.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from dragoman import Client, To, endpoint, record
from dragoman.adapters.embedded import EmbeddedBroker
from dragoman.adapters.sqlite import SqliteDatabase
from dragoman.client.transactional.outbox import Outbox
from dragoman.core.broker import Subscription
from dragoman.core.database import Transaction
from dragoman.core.message import Message, Position

FOLDER, POINT, COUNT = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])


@record
class Transfer:
    number: int
    amount: int


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


@endpoint("transfers", reply_to="answers")
def on_transfer(
    transfer: Transfer, tx: Transaction, receipts: Annotated[Outbox[Receipt], To("receipts")]
) -> Receipt:
    tx.execute("UPDATE account SET balance = balance + ?", (transfer.amount,))
    receipts.publish(tx, Receipt(transfer.number), key="all")
    if transfer.number == COUNT // 2:
        reached("in the transaction")
    return Receipt(transfer.number)


async def main() -> None:
    database = SqliteDatabase(f"sqlite://{FOLDER / 'app.db'}")
    with database.transaction() as tx:
        tx.execute("CREATE TABLE IF NOT EXISTS account (id INTEGER PRIMARY KEY, balance INTEGER)")
        tx.execute("INSERT OR IGNORE INTO account VALUES (1, 0)")
    broker = FatalBroker(f"embedded://{FOLDER / 'broker'}")
    await broker.connect()
    async with Client(broker, f"sqlite://{FOLDER / 'registry.db'}", [on_transfer], database=database):
        while any(lag.behind for lag in await broker.lag("transfers", "default")) or waiting(database):
            await asyncio.sleep(0.01)
    await broker.close()


def waiting(database: SqliteDatabase) -> int:
    with database.transaction(write=False) as tx:
        return int(tx.execute("SELECT COUNT(*) FROM dragoman_outbox")[0][0])


if __name__ == "__main__":
    asyncio.run(main())
