"""Killed at any point of its work, a program with a transaction still has each effect once."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from dragoman import Client, record
from dragoman.adapters.sqlite import SqliteDatabase
from dragoman.client import headers
from dragoman.client.contracts import Contracts
from dragoman.client.history import history
from dragoman.client.options import ClientOptions
from dragoman.schema.framing import unframe

PROGRAM = Path(__file__).with_name("crashing_once.py")
COUNT = 20
POINTS = [
    "in the transaction",
    "before answers",
    "before acknowledge",
    "after receipts",
]


@record
class Transfer:
    number: int
    amount: int


async def run(folder: Path, point: str) -> int:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), str(folder), point, str(COUNT)
    )
    async with asyncio.timeout(120):
        return await process.wait()


async def numbers(client: Client, channel: str) -> list[tuple[bytes | None, int]]:
    contracts = Contracts(client.registry, ClientOptions())
    found = []
    async for message in history(client.broker, channel):
        schema_id, payload = unframe(message.payload or b"")
        value = (await contracts.decoder(schema_id, None))(payload)
        found.append((message.header(headers.MESSAGE_ID), value["number"]))
    return found


async def crash(folder: Path, point: str) -> None:
    urls = (f"embedded://{folder / 'broker'}", f"sqlite://{folder / 'registry.db'}")
    async with Client(*urls) as client:
        await client.publish_many("transfers", [Transfer(n, n) for n in range(COUNT)], key=lambda t: "all")
    assert await run(folder, point) == -signal.SIGKILL
    assert await run(folder, "none") == 0
    database = SqliteDatabase(f"sqlite://{folder / 'app.db'}")
    with database.transaction(write=False) as tx:
        [(balance,)] = tx.execute("SELECT balance FROM account")
    database.close()
    async with Client(*urls) as client:
        receipts, answers = await numbers(client, "receipts"), await numbers(client, "answers")
    assert balance == sum(range(COUNT))
    first_of_each = list(dict.fromkeys(receipts))
    assert [number for _, number in first_of_each] == list(range(COUNT)), "in order, one id each"
    assert {number for _, number in answers} == set(range(COUNT)), "everyone was answered"


async def test_a_kill_at_any_point_leaves_each_effect_once(tmp_path: Path) -> None:
    await asyncio.gather(*(crash(tmp_path / point.replace(" ", "-"), point) for point in POINTS))
