"""Consume and produce in one transaction of Kafka: each receipt once, whoever is killed."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dragoman import Client, record
from dragoman.client.contracts import Contracts
from dragoman.client.history import history
from dragoman.client.options import ClientOptions
from dragoman.schema.framing import unframe
from tests.services.kafka import Kafka

PROGRAM = Path(__file__).with_name("crashing_transaction.py")
COUNT = 10


@record
class Order:
    number: int


@asynccontextmanager
async def program(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(sys.executable, str(PROGRAM), *arguments)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def numbers(client: Client, channel: str) -> list[int]:
    contracts = Contracts(client.registry, ClientOptions())
    found = []
    async for message in history(client.broker, channel):
        schema_id, payload = unframe(message.payload or b"")
        found.append((await contracts.decoder(schema_id, None))(payload)["number"])
    return sorted(found)


async def crash(client: Client, url: str, registry: str, point: str) -> None:
    channel = f"orders-{secrets.token_hex(4)}"
    await client.publish_many(channel, [Order(number) for number in range(COUNT)], key=lambda o: o.number)
    async with program(url, registry, channel, point) as doomed, asyncio.timeout(180):
        assert await doomed.wait() == -signal.SIGKILL
    async with program(url, registry, channel, "none") as survivor:
        async with asyncio.timeout(180):
            while set(await numbers(client, f"{channel}-replies")) < set(range(COUNT)):
                await asyncio.sleep(0.5)
        survivor.terminate()
        async with asyncio.timeout(60):
            assert await survivor.wait() == 0
    everything = list(range(COUNT))
    assert await numbers(client, f"{channel}-receipts") == everything
    assert await numbers(client, f"{channel}-replies") == everything


async def test_a_kill_before_or_after_the_commit_leaves_each_receipt_once(
    kafka_server: Kafka, tmp_path: Path
) -> None:
    registry = f"sqlite://{tmp_path / 'registry.db'}"
    url = f"{kafka_server.url}?session.timeout.ms=3000&heartbeat.interval.ms=500"
    points = ("before the commit", "after the commit")
    async with Client(kafka_server.url, registry) as client:
        await asyncio.gather(*(crash(client, url, registry, point) for point in points))
