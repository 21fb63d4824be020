"""A process that is killed at any point between receiving and acknowledging loses nothing."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from dragoman import Client, record
from dragoman.client.contracts import Contracts
from dragoman.client.history import history
from dragoman.client.options import ClientOptions
from dragoman.schema.framing import unframe
from tests.services.kafka import Kafka
from tests.services.rabbitmq import Rabbitmq

PROGRAM = Path(__file__).with_name("crashing.py")
COUNT = 20
POISON = 7
POINTS = (
    "before handling",
    "after handling",
    "before receipts",
    "after receipts",
    "before orders.dead",
    "after orders.dead",
    "before acknowledge",
    "after acknowledge",
)
FOR_SERVERS = tuple(point for point in POINTS if point not in ("before receipts", "before orders.dead"))
"""Nothing happens between the end of handling and these, so they are left out where each costs seconds."""
AT_ONCE = 3


@record
class Order:
    number: int


async def run(folder: Path, point: str, url: str, *prefixes: str) -> int:
    command = [sys.executable, str(PROGRAM), str(folder), point, url, *prefixes]
    done = await asyncio.to_thread(subprocess.run, command, timeout=180, check=False)
    return done.returncode


async def numbers(client: Client, channel: str) -> list[int]:
    contracts = Contracts(client.registry, ClientOptions())
    found = []
    async for message in history(client.broker, channel):
        schema_id, payload = unframe(message.payload or b"")
        found.append((await contracts.decoder(schema_id, None))(payload)["number"])
    return found


async def check(folder: Path, url: str, points: Sequence[str]) -> None:
    """Orders are sent, a process dies at each point, another one finishes what they have left."""
    registry = f"sqlite://{folder / 'registry.db'}"
    prefixes = {point: f"crash-{uuid4().hex[:8]}" for point in points}
    async with Client(url, registry) as client:
        for prefix in prefixes.values():
            orders = [Order(number) for number in range(COUNT)]
            await client.publish_many(f"{prefix}.orders", orders, key=lambda order: order.number)
    turns = asyncio.Semaphore(AT_ONCE)

    async def killed(point: str) -> int:
        async with turns:
            return await run(folder, point, url, prefixes[point])

    codes = await asyncio.gather(*map(killed, points))
    assert codes == [-signal.SIGKILL] * len(points)
    assert await run(folder, "none", url, *prefixes.values()) == 0
    async with Client(url, registry) as client:
        for prefix in prefixes.values():
            await check_one(client, folder, prefix)


async def check_one(client: Client, folder: Path, prefix: str) -> None:
    good = set(range(COUNT)) - {POISON}
    effects = [int(line) for line in (folder / f"{prefix}.effects").read_text().split()]
    assert set(effects) == good
    assert set(await numbers(client, f"{prefix}.receipts")) == good
    assert set(await numbers(client, f"{prefix}.orders.dead")) == {POISON}


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_any_point_loses_nothing(tmp_path: Path, point: str) -> None:
    await check(tmp_path, f"embedded://{tmp_path / 'broker'}", [point])


async def test_a_kill_at_any_point_loses_nothing_on_kafka(tmp_path: Path, kafka_server: Kafka) -> None:
    url = f"{kafka_server.url}?session.timeout.ms=3000&heartbeat.interval.ms=500"
    await check(tmp_path, url, FOR_SERVERS)


async def test_a_kill_at_any_point_loses_nothing_on_rabbitmq(
    tmp_path: Path, rabbitmq_server: Rabbitmq
) -> None:
    await check(tmp_path, f"{rabbitmq_server.url}?heartbeat=2&handover=2", FOR_SERVERS)
