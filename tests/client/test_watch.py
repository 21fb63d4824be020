"""A handler that hangs is named while it hangs, and one that is quick never is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from dragoman import Client, ClientOptions, EndpointOptions, endpoint, record
from dragoman.client import consumer
from dragoman.client.lane import Intake, Place
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import DONE, Outcome
from dragoman.client.watch import Watch
from dragoman.core.message import Message
from dragoman.core.run import runs_of
from tests.client.waiting import until

HASTY = ClientOptions(slow_after=0.05)


@record
class Job:
    number: int


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "BEAT", 0.01)


def warnings(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [each for each in caplog.records if getattr(each, "error_code", None) == "endpoint.slow"]


@pytest.mark.parametrize("kind", ["one", "batch", "thread"])
@pytest.mark.parametrize("url", ["memory://watch", "embedded"])
async def test_a_handler_that_hangs_is_named_once(
    url: str, kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = f"embedded://{tmp_path}" if url == "embedded" else f"{url}-{kind}"
    go, handled = asyncio.Event(), list[int]()
    loop = asyncio.get_running_loop()

    @endpoint("jobs", group="workers")
    async def one(job: Job) -> None:
        await go.wait()
        handled.append(job.number)

    @endpoint("jobs", group="workers")
    async def batch(jobs: list[Job]) -> None:
        await go.wait()
        handled.extend(job.number for job in jobs)

    @endpoint("jobs", group="workers")
    def thread(job: Job) -> None:
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result(60)
        handled.append(job.number)

    chosen = {"one": one, "batch": batch, "thread": thread}[kind]
    async with Client(place, "memory://", [chosen], options=HASTY) as client:
        await client.publish("jobs", Job(1), key="k")
        await until(lambda: bool(warnings(caplog)))
        [found] = warnings(caplog)
        assert found.levelno == logging.WARNING
        assert kind in found.endpoint
        assert (found.channel, found.group, found.offset) == ("jobs", "workers", 0)
        assert found.seconds >= 0
        [line] = [
            each
            for each in (await client.exposition()).splitlines()
            if each.startswith('dragoman_client_oldest_seconds{group="workers"}')
        ]
        assert float(line.rpartition(" ")[2]) > 0
        go.set()
        await until(lambda: handled == [1])
        await until(lambda: client.in_flight == 0)
        await client.publish("jobs", Job(2), key="k")
        await until(lambda: handled == [1, 2])
    assert [each.offset for each in warnings(caplog)].count(0) == 1


async def test_a_batch_that_waits_to_be_filled_is_not_slow(caplog: pytest.LogCaptureFixture) -> None:
    """Neither are the messages of the batch before it: they are handled."""
    handled, looks = list[int](), 0

    @endpoint("jobs", group="workers", options=EndpointOptions(batch_size=2, batch_wait=600.0))
    async def on_jobs(jobs: list[Job]) -> None:
        handled.extend(job.number for job in jobs)

    async with Client("memory://watch-filling", "memory://", [on_jobs], options=HASTY) as client:
        await client.publish_many("jobs", [Job(number) for number in range(3)], partition=0)
        await until(lambda: handled == [0, 1] and client.in_flight == 1)
        [watch] = [each._watch for each in client._run.consumers]
        look = watch.look

        def count(places: Iterable[Place], now: float) -> None:
            nonlocal looks
            looks += 1
            look(places, now + 1000.0 * looks)

        watch.look = count  # type: ignore[method-assign]
        await until(lambda: looks > 3)
        assert watch.oldest_s(1e12) == 0.0
    assert warnings(caplog) == []


def test_only_what_stays_with_its_handler_counts(caplog: pytest.LogCaptureFixture) -> None:
    async def handle(message: Message) -> Outcome:
        return DONE

    place = Place(Intake(handle, 1, ChannelMetrics(), name="worker"), cumulative=True)
    messages = [Message("c", b"", None, (), 0, offset) for offset in range(3)]
    [run] = runs_of(messages)
    place.take(run)
    [lane] = place.lanes
    watch = Watch("g", limit_s=10.0)
    watch.look([place], 0.0)
    assert watch.oldest_s(100.0) == 0.0, "nothing is being handled"
    lane.task = object()  # type: ignore[assignment]
    stretch = lane.next()
    assert stretch is not None
    for number in range(3):
        stretch.begun = number + 1
        watch.look([place], 20.0 * number)
        watch.look([place], 20.0 * number + 9.0)
        assert watch.oldest_s(20.0 * number + 9.0) == 9.0
        stretch.ended = number + 1
    watch.look([place], 100.0)
    assert watch.oldest_s(100.0) == 0.0
    assert warnings(caplog) == []
