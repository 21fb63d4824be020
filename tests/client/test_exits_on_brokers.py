"""A program that ends in a handler acknowledges what it has handled: a restart repeats none of that."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from dragoman import Client, record
from tests.client.waiting import until

PROGRAM = Path(__file__).with_name("exiting.py")
COUNT = 40


@record
class Job:
    number: int


@pytest.fixture(params=["embedded", "kafka", "rabbitmq", "nats", "mosquitto", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "embedded":
        return f"embedded://{tmp_path / 'broker'}"
    return str(request.getfixturevalue(f"{request.param}_server").url)


@pytest.mark.parametrize(
    ("way", "end", "codes"),
    [
        ("by_value", "exit", {3}),
        ("in_thread", "exit", {3}),
        ("in_batches", "exit", {3}),
        ("by_value", "interrupt", {130, -signal.SIGINT}),
        ("by_value", "return", {0}),
    ],
)
async def test_what_was_handled_before_a_program_ended_in_a_handler_is_not_repeated(
    url: str, tmp_path: Path, way: str, end: str, codes: set[int]
) -> None:
    """``return``: the program ends without closing its client, so messages may come again."""
    if end == "return" and url.startswith("redis"):
        pytest.skip("asyncio.wait_for loses a cancellation in the driver before Python 3.12")
    channel, done = f"jobs-{secrets.token_hex(4)}", tmp_path / "done"
    registry = f"sqlite://{tmp_path / 'registry.db'}"
    done.touch()
    processes: list[Process] = []

    async def start(end: str) -> Process:
        words = (url, registry, channel, str(done), way, end)
        process = await asyncio.create_subprocess_exec(sys.executable, str(PROGRAM), *words, stderr=PIPE)
        processes.append(process)
        return process

    async def errors_of(process: Process) -> str:
        async with asyncio.timeout(120):
            return (await process.communicate())[1].decode()

    def lines() -> list[str]:
        return done.read_text().split()

    def handled() -> list[int]:
        return [int(line) for line in lines() if line.isdigit()]

    try:
        async with Client(url, registry) as client:
            await client.producer(channel, Job)
            first = await start(end)
            await until(lambda: "ready" in lines())
            jobs = [Job(number) for number in range(COUNT)]
            await client.publish_many(channel, jobs, partition=0)
            errors = await errors_of(first)
            assert first.returncode in codes, errors
            assert "never retrieved" not in errors
            assert "was destroyed" not in errors
            if end == "exit":
                assert "Traceback" not in errors
            before = handled()
            assert 5 not in before
            second = await start("nothing")
            await until(lambda: lines().count("ready") == 2)
            await until(lambda: set(handled()) == set(range(COUNT)))
            second.terminate()
            errors = await errors_of(second)
            assert second.returncode == 0, errors
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if end == "return":
        assert sorted(set(handled())) == list(range(COUNT))
    else:
        assert sorted(handled()) == list(range(COUNT))
