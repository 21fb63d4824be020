"""Processes of one group are replaced one after the other, under load: each message is handled once."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from dragoman import Client, endpoint, record
from tests.client.waiting import until
from tests.services.kafka import Kafka

PROGRAM = Path(__file__).with_name("restarting.py")
COUNT = 4000
RESTARTS = 4


@record
class Job:
    number: int


@pytest.fixture(params=["embedded", "kafka"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "embedded":
        return f"embedded://{tmp_path / 'broker'}"
    # What handlers have begun is waited for so long; a loaded machine may need more than the default.
    return f"{request.getfixturevalue('kafka_server').url}?handover=60"


async def test_a_rolling_restart_repeats_nothing(url: str, tmp_path: Path) -> None:
    channel, done = f"jobs-{secrets.token_hex(4)}", tmp_path / "done"
    done.touch()

    def lines() -> list[str]:
        return done.read_text().split()

    def handled() -> list[int]:
        return [int(line) for line in lines() if line.isdigit()]

    async def start() -> None:
        name = f"worker-{len(processes)}"
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(PROGRAM), url, registry, channel, str(done), name, cwd=tmp_path
        )
        processes.append(process)

    async def end(number: int) -> None:
        """Only one that is ready knows what the signal means."""
        await until(lambda: f"worker-{number}" in lines())
        processes[number].send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await processes[number].wait() == 0

    processes: list[Process] = []
    registry = f"sqlite://{tmp_path / 'registry.db'}"
    try:
        async with Client(url, registry) as client:
            jobs = [Job(number) for number in range(COUNT)]
            await client.publish_many(channel, jobs, key=lambda job: str(job.number % 40))
            await start()
            await start()
            for number in range(RESTARTS):
                enough = min(COUNT, len(handled()) + 200)
                await until(lambda enough=enough: len(handled()) >= enough)
                await end(number)
                await start()
            await until(lambda: len(set(handled())) == COUNT, seconds=180)
            for number in range(RESTARTS, len(processes)):
                await end(number)
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert sorted(handled()) == list(range(COUNT))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_what_is_not_begun_moves_with_its_partition(
    kafka_server: Kafka, tmp_path: Path, protocol: str
) -> None:
    url = f"{kafka_server.url}?group.protocol={protocol}&handover=60"
    channel, each = f"jobs-{secrets.token_hex(4)}", 50
    registry, gate = f"sqlite://{tmp_path / 'registry.db'}", asyncio.Event()
    begun: list[int] = []
    handled: list[int] = []

    @endpoint(channel, group=channel)
    async def on_first(job: Job) -> None:
        begun.append(job.number)
        await gate.wait()
        handled.append(job.number)

    @endpoint(channel, group=channel)
    async def on_second(job: Job) -> None:
        handled.append(job.number)

    async with Client(url, registry) as client:
        await client.producer(channel, Job)
        for partition in range(4):
            jobs = [Job(number) for number in range(partition * each, (partition + 1) * each)]
            await client.publish_many(channel, jobs, partition=partition)
    async with Client(url, registry, [on_first]) as first:
        await until(lambda: first.in_flight == 4 * each)
        async with Client(url, registry, [on_second]):
            # One of each partition was begun. Two partitions move, and their other messages are given back.
            await until(lambda: first.in_flight == 2 * each + 2)
            assert len(begun) == 4
            gate.set()
            await until(lambda: len(handled) >= 4 * each)
    assert sorted(handled) == list(range(4 * each))
