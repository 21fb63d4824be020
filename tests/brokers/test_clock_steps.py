"""The machine's clock is set while members are at work: no partition moves, and no retry waits longer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from dragoman.adapters.rabbitmq import positions
from dragoman.core.broker import Broker, Subscription
from dragoman.core.channel import Channel
from dragoman.core.clock import SystemClock
from dragoman.core.leasing.record import ShareRecord
from dragoman.core.loading import BROKERS, load
from dragoman.core.message import Message
from dragoman.core.progress import Progress

STEPS = [-3600.0, 3600.0]
WRITTEN: list[tuple[Callable[[Progress], bytes], Callable[[bytes], Progress]]] = [
    (lambda progress: ShareRecord(1, progress).encode(), lambda data: ShareRecord.decode(data).progress),
    (lambda progress: positions.written(progress, True), positions.read),
]


@pytest.fixture(params=["memory", "embedded"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Broker:
    url = f"memory://{uuid4().hex}" if request.param == "memory" else f"embedded://{tmp_path}/data"
    return load(BROKERS, request.param)(url)


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    real = time.time

    def step(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: real() + seconds)
        monkeypatch.setattr(SystemClock, "now", staticmethod(lambda: real() + seconds))

    return step


@pytest.mark.parametrize("step", STEPS)
async def test_a_member_at_work_keeps_its_partitions(
    broker: Broker, set_clock: Callable[[float], None], step: float
) -> None:
    await broker.connect()
    await broker.create(Channel("c", 4))
    ours, other = [
        await broker.subscribe(Subscription(("c",), "g", start="earliest", member=name))
        for name in ("a", "b")
    ]
    async with asyncio.timeout(60):
        while (ours.partitions, other.partitions) != (2, 2):
            for receiver in (ours, other):
                assert not await receiver.receive(1, 0.01)
    await broker.publish([Message("c", b"%d" % number, partition=number) for number in range(4)])
    taken = await ours.receive(10, 30.0)
    set_clock(step)
    found = [message for _ in range(10) for message in await other.receive(10, 0.0)]
    assert not {message.payload for message in found} & {message.payload for message in taken}
    await ours.acknowledge(taken)
    await broker.close()


async def test_a_retry_comes_after_its_delay(broker: Broker, set_clock: Callable[[float], None]) -> None:
    await broker.connect()
    await broker.create(Channel("c", 1))
    receiver = await broker.subscribe(Subscription(("c",), "g", start="earliest"))
    await broker.publish([Message("c", b"soon"), Message("c", b"late")])
    soon, late = await receiver.receive(2, 30.0)
    await receiver.release([late], 1800.0)
    await receiver.release([soon], 0.1)
    set_clock(STEPS[0])
    async with asyncio.timeout(60):
        while not (found := await receiver.receive(2, 5.0)):
            pass
    assert [message.payload for message in found] == [b"soon"]
    await receiver.acknowledge(found)
    set_clock(STEPS[1])
    assert not await receiver.receive(2, 0.0)
    await broker.close()


@pytest.mark.parametrize(("written", "read"), WRITTEN)
@pytest.mark.parametrize("step", STEPS)
def test_another_process_starts_from_the_wall_clock(
    written: Callable[[Progress], bytes],
    read: Callable[[bytes], Progress],
    step: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its monotonic clock is another one, as on another machine."""
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)
    monkeypatch.setattr(time, "monotonic", lambda: 5000.0)
    progress = Progress(0)
    progress.cursor = 2
    progress.release([1], 5500.0)
    data = written(progress)
    monkeypatch.setattr(time, "time", lambda: 1_700_000_100.0)
    monkeypatch.setattr(time, "monotonic", lambda: 5000.0 + step)
    assert read(data).aside[1].due == 5400.0 + step
