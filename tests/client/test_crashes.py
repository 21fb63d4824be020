"""A process that is killed at any point between receiving and acknowledging loses nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import Client, record
from dragoman.client.contracts import Contracts
from dragoman.client.history import history
from dragoman.client.options import ClientOptions
from dragoman.schema.framing import unframe

PROGRAM = Path(__file__).with_name("crashing.py")
COUNT = 20
POISON = 7


@record
class Order:
    number: int


def run(folder: Path, point: str) -> int:
    command = [sys.executable, str(PROGRAM), str(folder), point]
    return subprocess.run(command, timeout=120, check=False).returncode


async def numbers(client: Client, channel: str) -> list[int]:
    contracts = Contracts(client.registry, ClientOptions())
    found = []
    async for message in history(client.broker, channel):
        schema_id, payload = unframe(message.payload or b"")
        found.append((await contracts.decoder(schema_id, None))(payload)["number"])
    return found


@pytest.mark.parametrize(
    "point",
    [
        "before handling",
        "after handling",
        "before receipts",
        "after receipts",
        "before orders.dead",
        "after orders.dead",
        "before acknowledge",
        "after acknowledge",
    ],
)
async def test_a_kill_at_any_point_loses_nothing(tmp_path: Path, point: str) -> None:
    urls = (f"embedded://{tmp_path / 'broker'}", f"sqlite://{tmp_path / 'registry.db'}")
    async with Client(*urls) as client:
        await client.publish_many(
            "orders", [Order(number) for number in range(COUNT)], key=lambda o: o.number
        )
    assert run(tmp_path, point) == -signal.SIGKILL
    assert run(tmp_path, "none") == 0
    good = set(range(COUNT)) - {POISON}
    effects = [int(line) for line in (tmp_path / "effects").read_text().split()]
    async with Client(*urls) as client:
        receipts, dead = await numbers(client, "receipts"), await numbers(client, "orders.dead")
    assert set(effects) == good
    assert set(receipts) == good
    assert set(dead) == {POISON}
