"""A process that is killed at any point between receiving and acknowledging loses nothing."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
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


async def run(folder: Path, point: str, url: str, prefix: str) -> int:
    command = [sys.executable, str(PROGRAM), str(folder), point, url, prefix]
    done = await asyncio.to_thread(subprocess.run, command, timeout=180, check=False)
    return done.returncode


async def numbers(client: Client, channel: str) -> list[int]:
    contracts = Contracts(client.registry, ClientOptions())
    found = []
    async for message in history(client.broker, channel):
        schema_id, payload = unframe(message.payload or b"")
        found.append((await contracts.decoder(schema_id, None))(payload)["number"])
    return found


async def check(folder: Path, point: str, url: str) -> None:
    """Orders are sent, a process dies at this point, the next one finishes."""
    prefix = f"crash-{uuid4().hex[:8]}"
    folder.mkdir(exist_ok=True)
    registry = f"sqlite://{folder / 'registry.db'}"
    async with Client(url, registry) as client:
        orders = [Order(number) for number in range(COUNT)]
        await client.publish_many(f"{prefix}.orders", orders, key=lambda order: order.number)
    assert await run(folder, point, url, prefix) == -signal.SIGKILL
    assert await run(folder, "none", url, prefix) == 0
    good = set(range(COUNT)) - {POISON}
    effects = [int(line) for line in (folder / "effects").read_text().split()]
    async with Client(url, registry) as client:
        receipts = await numbers(client, f"{prefix}.receipts")
        dead = await numbers(client, f"{prefix}.orders.dead")
    assert set(effects) == good
    assert set(receipts) == good
    assert set(dead) == {POISON}


async def check_all(folder: Path, url: str) -> None:
    """Some at once: most of the time is spent until the server misses the dead."""
    turns = asyncio.Semaphore(AT_ONCE)
    async with Client(url, "memory://"):
        pass  # What a server needs for the first client of all is there for the others.

    async def in_turn(point: str) -> None:
        async with turns:
            await check(folder / point.replace(" ", "-"), point, url)

    async with asyncio.TaskGroup() as group:
        for point in FOR_SERVERS:
            group.create_task(in_turn(point))


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_any_point_loses_nothing(tmp_path: Path, point: str) -> None:
    await check(tmp_path, point, f"embedded://{tmp_path / 'broker'}")


async def test_a_kill_at_any_point_loses_nothing_on_kafka(tmp_path: Path, kafka_server: Kafka) -> None:
    await check_all(tmp_path, f"{kafka_server.url}?session.timeout.ms=3000&heartbeat.interval.ms=500")


async def test_a_kill_at_any_point_loses_nothing_on_rabbitmq(
    tmp_path: Path, rabbitmq_server: Rabbitmq
) -> None:
    await check_all(tmp_path, f"{rabbitmq_server.url}?heartbeat=2&handover=2")
