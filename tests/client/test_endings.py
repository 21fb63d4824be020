"""However a handler ends, its message is handled, a dead letter, or delivered again; the others go on."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest

from dragoman import (
    Client,
    ClientOptions,
    Delivery,
    EndpointOptions,
    Handler,
    Key,
    Outcome,
    RetryOptions,
    Transaction,
    endpoint,
    record,
    timeout,
)
from dragoman.adapters.memory import MemoryBroker
from dragoman.client.flight import Flight
from dragoman.client.options import LaterOptions
from dragoman.core.registry import Registry
from tests.client.conftest import payloads
from tests.client.scripted import ScriptedBroker, numbered
from tests.client.test_loop import client as scripted_client
from tests.client.test_loop import worker
from tests.client.waiting import until

COUNT = 12
BAD = 5
ONCE = EndpointOptions(retry=RetryOptions(attempts=1))


@record
class Job:
    number: int


@record
class Done:
    number: int


class PanicException(BaseException):
    """As extension modules in Rust raise it."""


async def panic() -> None:
    raise PanicException("index out of bounds")


class Speechless(Exception):
    def __str__(self) -> str:
        raise AttributeError("not set yet")


class Panicking(Exception):
    """One of an extension module, whose text panics as well."""

    def __str__(self) -> str:
        raise PanicException("index out of bounds")


async def raise_what_cannot_be_said() -> None:
    raise Speechless


async def raise_what_panics_when_said() -> None:
    raise Panicking


async def fail_a_test() -> None:
    pytest.fail("not what was expected")


async def raise_a_generators_end() -> None:
    raise GeneratorExit


async def raise_a_cancellation() -> None:
    raise asyncio.CancelledError


async def cancel_own_task() -> None:
    this_task().cancel()
    await asyncio.sleep(0)


async def cancel_own_task_twice() -> None:
    this_task().cancel()
    this_task().cancel()
    await asyncio.sleep(0)


async def be_cancelled_while_waiting() -> None:
    asyncio.get_running_loop().call_soon(this_task().cancel)
    await asyncio.Event().wait()


async def await_a_cancelled_future() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def swallow_and_await_a_cancelled_future() -> None:
    await swallow()
    await await_a_cancelled_future()


async def swallow() -> None:
    """As timeouts of older libraries do."""
    this_task().cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)


async def swallow_and_fail() -> None:
    await swallow()
    raise TimeoutError


async def cancel_and_return() -> None:
    this_task().cancel()


def this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


FAILING = [
    panic,
    raise_what_cannot_be_said,
    raise_what_panics_when_said,
    fail_a_test,
    raise_a_generators_end,
    raise_a_cancellation,
    cancel_own_task,
    cancel_own_task_twice,
    be_cancelled_while_waiting,
    await_a_cancelled_future,
    swallow_and_await_a_cancelled_future,
    swallow_and_fail,
]
"""After these, a message is not handled."""
SUCCEEDING = [swallow, cancel_and_return]

End = Callable[[], Awaitable[None]]
Way = Callable[[End, list[int], EndpointOptions], Any]


async def work(end: End, done: list[int], job: Job) -> None:
    if job.number == BAD:
        await end()
    await asyncio.sleep(0)
    done.append(job.number)


def by_value(end: End, done: list[int], options: EndpointOptions) -> Any:
    @endpoint("jobs", options=options)
    async def on_job(job: Job) -> None:
        await work(end, done, job)

    return on_job


def by_key(end: End, done: list[int], options: EndpointOptions) -> Any:
    @endpoint("jobs", options=options)
    async def on_job(job: Job, key: Annotated[str | None, Key]) -> None:
        await work(end, done, job)

    return on_job


def by_middleware(end: End, done: list[int], options: EndpointOptions) -> Any:
    async def passing(delivery: Delivery, next: Handler) -> Outcome:
        return await next(delivery)

    @endpoint("jobs", options=options, middleware=[passing])
    async def on_job(job: Job) -> None:
        await work(end, done, job)

    return on_job


def in_middleware(end: End, done: list[int], options: EndpointOptions) -> Any:
    async def ending(delivery: Delivery, next: Handler) -> Outcome:
        await work(end, done, delivery.value)
        return await next(delivery)

    @endpoint("jobs", options=options, middleware=[ending])
    async def on_job(job: Job) -> None:
        pass

    return on_job


def under_a_timeout(end: End, done: list[int], options: EndpointOptions) -> Any:
    @endpoint("jobs", options=options, middleware=[timeout(600)])
    async def on_job(job: Job) -> None:
        await work(end, done, job)

    return on_job


def in_another_task(end: End, done: list[int], options: EndpointOptions) -> Any:
    async def elsewhere(delivery: Delivery, next: Handler) -> Outcome:
        return await asyncio.wait_for(next(delivery), 600)

    @endpoint("jobs", options=options, middleware=[elsewhere])
    async def on_job(job: Job) -> None:
        await work(end, done, job)

    return on_job


def with_replies(end: End, done: list[int], options: EndpointOptions) -> Any:
    @endpoint("jobs", options=options, reply_to="answers")
    async def on_job(job: Job) -> Done:
        await work(end, done, job)
        return Done(job.number)

    return on_job


def with_a_stream_of_replies(end: End, done: list[int], options: EndpointOptions) -> Any:
    @endpoint("jobs", options=options, reply_to="answers")
    async def on_job(job: Job) -> AsyncIterator[Done]:
        await work(end, done, job)
        yield Done(job.number)

    return on_job


def in_lanes(end: End, done: list[int], options: EndpointOptions) -> Any:
    return by_value(end, done, replace(options, concurrency=4))


def selected(end: End, done: list[int], options: EndpointOptions) -> Any:
    return by_value(end, done, replace(options, consumed_if="payload.number >= 0"))


def with_counted_deliveries(end: End, done: list[int], options: EndpointOptions) -> Any:
    return by_value(end, done, replace(options, deliveries=3))


def in_batches(end: End, done: list[int], options: EndpointOptions) -> Any:
    @endpoint("jobs", options=replace(options, batch_size=4, batch_wait=0.01))
    async def on_jobs(jobs: list[Job]) -> None:
        for job in jobs:
            if job.number == BAD:
                await end()
        await asyncio.sleep(0)
        done.extend(job.number for job in jobs)

    return on_jobs


WAYS: list[Way] = [
    by_value,
    by_key,
    by_middleware,
    in_middleware,
    under_a_timeout,
    in_another_task,
    with_replies,
    with_a_stream_of_replies,
    in_lanes,
    selected,
    with_counted_deliveries,
    in_batches,
]


def named(value: Any) -> str:
    return str(value.__name__)


async def settled(broker: MemoryBroker) -> bool:
    return not any(lag.behind for lag in await broker.lag("jobs"))


@pytest.mark.parametrize("way", WAYS, ids=named)
@pytest.mark.parametrize("end", FAILING, ids=named)
async def test_a_message_whose_handler_ends_in_any_way_becomes_a_dead_letter(
    memory: MemoryBroker, registry: Registry, end: End, way: Way
) -> None:
    done: list[int] = []
    async with Client(memory, registry, [way(end, done, ONCE)]) as client:
        await client.publish_many("jobs", [Job(number) for number in range(COUNT)], partition=0)
        await until(lambda: settled(memory))
        assert sorted(done) == [number for number in range(COUNT) if number != BAD]
        assert client.metrics.of("jobs").dead == 1
        assert len(payloads(memory, "jobs.dead")) == 1
        # The partition goes on.
        await client.publish("jobs", Job(COUNT), partition=0)
        await until(lambda: settled(memory))
        assert done[-1] == COUNT


@pytest.mark.parametrize("way", WAYS, ids=named)
@pytest.mark.parametrize("end", SUCCEEDING, ids=named)
async def test_a_handler_that_returns_has_handled_its_message_and_harms_no_other(
    memory: MemoryBroker, registry: Registry, end: End, way: Way
) -> None:
    done: list[int] = []
    async with Client(memory, registry, [way(end, done, ONCE)]) as client:
        await client.publish_many("jobs", [Job(number) for number in range(COUNT)], partition=0)
        await until(lambda: settled(memory))
        assert set(range(COUNT)) - {BAD} <= set(done)
        assert len(done) + client.metrics.of("jobs").dead == COUNT


# What awaits another task gives up when it is cancelled, whatever that task gives.
@pytest.mark.parametrize("way", [way for way in WAYS if way is not in_another_task], ids=named)
async def test_a_handler_that_finishes_though_the_client_ends_it_has_handled_its_message(
    memory: MemoryBroker, registry: Registry, way: Way
) -> None:
    done: list[int] = []
    begun = asyncio.Event()

    async def finish() -> None:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    options = ClientOptions(drain_timeout=0.0)
    async with Client(memory, registry, [way(finish, done, ONCE)], options=options) as client:
        await client.publish("jobs", Job(BAD), partition=0)
        await begun.wait()
    assert done == [BAD]
    assert await settled(memory)


async def test_a_cancellation_that_was_swallowed_is_not_taken_for_the_end_later(
    memory: MemoryBroker, registry: Registry
) -> None:
    done: list[int] = []

    @endpoint("jobs", options=ONCE)
    async def on_job(job: Job) -> None:
        if job.number == 3:
            await swallow()
        if job.number == 6:
            await await_a_cancelled_future()
        done.append(job.number)

    async with Client(memory, registry, [on_job]) as client:
        await client.publish_many("jobs", [Job(number) for number in range(COUNT)], partition=0)
        await until(lambda: settled(memory))
        assert done == [number for number in range(COUNT) if number != 6]
        assert client.metrics.of("jobs").dead == 1


async def test_a_handler_that_cancels_its_task_at_last_does_not_cancel_the_next(
    memory: MemoryBroker, registry: Registry
) -> None:
    done: list[int] = []

    @endpoint("jobs", options=ONCE)
    async def on_job(job: Job) -> None:
        await asyncio.sleep(0)
        done.append(job.number)
        if job.number == BAD:
            this_task().cancel()

    async with Client(memory, registry, [on_job]) as client:
        await client.publish_many("jobs", [Job(number) for number in range(COUNT)], partition=0)
        await until(lambda: settled(memory))
        assert done == list(range(COUNT))
        assert client.metrics.of("jobs").failed == 0


@pytest.mark.parametrize("batch", [False, True], ids=["alone", "in batches"])
async def test_a_task_that_is_cancelled_between_messages_goes_on(
    memory: MemoryBroker, registry: Registry, batch: bool
) -> None:
    """A timer of an earlier handler may go off while its task works on another message, or waits for one."""
    begun: set[int] = set()
    done: set[int] = set()
    cancels: list[Callable[[], object]] = []

    def stray() -> None:
        while cancels:
            cancels.pop()()

    options = EndpointOptions(retry=RetryOptions(attempts=50, delay=0.0), batch_size=4, batch_wait=0.02)

    @endpoint("jobs", options=options)
    async def on_job(job: Job) -> None:
        if job.number % 3 == 0 and job.number not in begun:
            begun.add(job.number)
            cancels.append(this_task().cancel)
            asyncio.get_running_loop().call_later(0.001, stray)
        await asyncio.sleep(0.001)
        done.add(job.number)

    @endpoint("jobs", options=options)
    async def on_jobs(jobs: list[Job]) -> None:
        if not begun & {job.number for job in jobs}:
            begun.update(job.number for job in jobs)
            cancels.append(this_task().cancel)
            asyncio.get_running_loop().call_later(0.01, stray)
        done.update(job.number for job in jobs)

    async with Client(memory, registry, [on_jobs if batch else on_job]) as client:
        for number in range(60):
            await client.publish("jobs", Job(number), partition=0)
            if number % 10 == 9:
                await asyncio.sleep(0.02)
        await until(lambda: settled(memory))
        assert done == set(range(60))
        assert client.metrics.of("jobs").dead == 0


async def test_a_plain_function_that_panics_fails(memory: MemoryBroker, registry: Registry) -> None:
    done: list[int] = []

    @endpoint("jobs", options=ONCE)
    def on_job(job: Job) -> None:
        if job.number == BAD:
            raise PanicException
        done.append(job.number)

    async with Client(memory, registry, [on_job]) as client:
        await client.publish_many("jobs", [Job(number) for number in range(COUNT)], partition=0)
        await until(lambda: settled(memory))
        assert done == [number for number in range(COUNT) if number != BAD]
        assert client.metrics.of("jobs").dead == 1


async def test_an_endpoint_with_a_transaction_that_panics_leaves_nothing_behind(
    memory: MemoryBroker, registry: Registry, tmp_path: Path
) -> None:
    @endpoint("jobs", options=ONCE)
    def on_job(job: Job, tx: Transaction) -> None:
        tx.execute("INSERT INTO done (number) VALUES (?)", (job.number,))
        if job.number == BAD:
            raise PanicException

    database = f"sqlite://{tmp_path / 'app.db'}"
    async with Client(memory, registry, database=database) as client:
        with client.database.transaction() as tx:
            tx.execute("CREATE TABLE done (number INTEGER)")
    async with Client(memory, registry, [on_job], database=database) as client:
        await client.publish_many("jobs", [Job(number) for number in range(COUNT)], partition=0)
        await until(lambda: settled(memory))
        assert client.metrics.of("jobs").dead == 1
        with client.database.transaction(write=False) as tx:
            rows = tx.execute("SELECT number FROM done ORDER BY number")
        assert [number for (number,) in rows] == [number for number in range(COUNT) if number != BAD]


@pytest.mark.parametrize("end", FAILING, ids=named)
async def test_every_failed_attempt_counts(memory: MemoryBroker, registry: Registry, end: End) -> None:
    attempts = 0

    @endpoint("jobs", options=EndpointOptions(retry=RetryOptions(attempts=3, delay=0.0)))
    async def on_job(job: Job) -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            await end()

    async with Client(memory, registry, [on_job]) as client:
        await client.publish("jobs", Job(0))
        await until(lambda: settled(memory))
        numbers = client.metrics.of("jobs")
        assert (attempts, numbers.handled, numbers.failed, numbers.dead) == (3, 1, 2, 0)


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedBroker]:
    broker = ScriptedBroker()
    await broker.connect()
    yield broker
    await broker.close()


@pytest.mark.parametrize("end", [panic, cancel_own_task], ids=named)
async def test_a_message_is_tried_again_later_however_it_failed(scripted: ScriptedBroker, end: End) -> None:
    broker = scripted
    broker.capabilities = replace(broker.capabilities, delayed_delivery=False)
    calls: list[int] = []

    async def handle(number: int) -> None:
        calls.append(number)
        await end()

    options = EndpointOptions(retry=RetryOptions(attempts=1), later=LaterOptions(delays=(0.0,)))
    async with scripted_client(broker, worker(handle, options)) as client:
        broker.receivers[0].deliver(*numbered(1))
        await until(lambda: client.metrics.of("work").postponed == 1)
        await until(lambda: broker.receivers[0].offsets == [0])
    assert calls == [0]


async def test_a_strategy_that_panics_keeps_the_message(memory: MemoryBroker, registry: Registry) -> None:
    done: list[int] = []
    panics = 0

    def strategy(delivery: Delivery, error: Exception) -> Outcome:
        nonlocal panics
        panics += 1
        if panics == 1:
            raise PanicException
        return Outcome(acknowledge=True)

    @endpoint("jobs", options=replace(ONCE, on_failure=strategy))
    async def on_job(job: Job) -> None:
        if job.number == BAD:
            raise ValueError
        done.append(job.number)

    async with Client(memory, registry, [on_job]) as client:
        await client.publish_many("jobs", [Job(number) for number in range(COUNT)], partition=0)
        await until(lambda: settled(memory))
        assert panics == 2
        assert set(done) == set(range(COUNT)) - {BAD}


async def test_a_message_at_which_a_polling_program_panics_comes_again(
    memory: MemoryBroker, registry: Registry
) -> None:
    async with Client(memory, registry) as client:
        await client.publish_many("jobs", [Job(number) for number in range(3)], partition=0)
        seen = []
        with pytest.raises(PanicException):
            async with client.poll("jobs", Job, group="g", wait=60) as jobs:
                async for job in jobs:
                    seen.append(job.number)
                    if job.number == 1:
                        raise PanicException
        async with client.poll("jobs", Job, group="g", limit=2) as jobs:
            seen += [job.number async for job in jobs]
    assert seen == [0, 1, 1, 2]


async def test_a_part_of_a_sequence_does_not_wait_for_ever_if_its_whole_panics(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("jobs", options=ONCE)
    async def on_job(job: Job) -> None:
        await cancel_own_task()

    async with Client(memory, registry, [on_job]) as client:
        await client.publish_in_parts("jobs", Job(2**60), key="k", part_size=6)
        await until(lambda: settled(memory))
        assert client.metrics.of("jobs").dead == 1


def test_what_the_end_of_the_program_cancels_is_no_dead_letter() -> None:
    """A handler that waits for tasks of its own notices it some turns of the loop later than the client."""
    broker = MemoryBroker("memory://end-of-program")
    running = asyncio.Event()

    async def wait(depth: int) -> None:
        if depth:
            await asyncio.create_task(wait(depth - 1))
        else:
            running.set()
            await asyncio.Event().wait()

    @endpoint("jobs", options=ONCE)
    async def on_job(job: Job) -> None:
        await wait(20)

    async def program() -> None:
        await broker.connect()
        async with Client(broker, "memory://", [on_job]) as client:
            await client.publish("jobs", Job(0))
            await running.wait()
            asyncio.get_running_loop().call_soon(sys.exit, 3)
            await asyncio.Event().wait()

    with pytest.raises(SystemExit):
        asyncio.run(program())
    # ``jobs.dead`` is made when the first letter is sent to it, or when the client starts.
    letters = broker.log().partitions("jobs.dead")
    assert all(first == end for first, end in letters.values())


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError, PanicException])
async def test_a_lane_that_breaks_off_loses_nothing_and_stops_no_partition(
    scripted: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Whatever goes wrong in the loop itself, a new receiver is given what was in flight."""
    broker, done = scripted, list[int]()
    came_out = Flight._came_out
    errors = [error]

    def breaking(self: Flight, *arguments: Any) -> None:
        if errors:
            raise errors.pop()
        came_out(self, *arguments)

    async def handle(number: int) -> None:
        done.append(number)

    monkeypatch.setattr(Flight, "_came_out", breaking)
    async with scripted_client(broker, worker(handle)):
        first = broker.receiver
        first.deliver(*numbered(3))
        await until(lambda: len(broker.receivers) == 2)
        assert first.closed
        assert first.offsets == []
        broker.receiver.deliver(*numbered(3))
        await until(lambda: 2 in broker.receiver.offsets)
    assert done == [0, 0, 1, 2]


PROGRAM = """
import asyncio, os, sys
from dragoman import Client, ClientOptions, EndpointOptions, RetryOptions, endpoint, record

@record
class Job:
    number: int

way, end = sys.argv[1:]
ONCE = EndpointOptions(retry=RetryOptions(attempts=1), batch_size=3, batch_wait=0.01)
done = os.open("done", os.O_APPEND | os.O_CREAT | os.O_WRONLY)
running = asyncio.Event()

def leave(job):
    if job.number == 5 and end == "exit":
        sys.exit(3)
    if job.number == 5 and end == "interrupt":
        raise KeyboardInterrupt
    os.write(done, f"{job.number}\\n".encode())

async def by_value(job: Job) -> None:
    await asyncio.sleep(0)
    if job.number == 5 and end == "return":
        running.set()
        await asyncio.Event().wait()
    leave(job)

def in_thread(job: Job) -> None:
    leave(job)

async def in_batches(jobs: list[Job]) -> None:
    for job in jobs:
        leave(job)

async def main():
    handler = endpoint("jobs", options=ONCE)(globals()[way])
    async with Client("embedded://broker") as client:
        if not await client.broker.channels():
            await client.publish_many("jobs", [Job(number) for number in range(12)], partition=0)
    client = Client("embedded://broker", controllers=[handler])
    if end == "return":
        await client.__aenter__()
        await running.wait()
        return
    async with client:
        async with asyncio.timeout(60):
            while any(lag.behind for lag in await client.broker.lag("jobs")):
                await asyncio.sleep(0.01)
    async with Client("embedded://broker") as client:
        if "jobs.dead" in await client.broker.channels():
            letters = client.broker.log().partitions("jobs.dead")
            assert all(start == end for start, end in letters.values())

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("way", "end", "codes"),
    [
        ("by_value", "exit", {3}),
        ("in_thread", "exit", {3}),
        ("in_batches", "exit", {3}),
        ("by_value", "interrupt", {130, -2}),
        ("in_batches", "interrupt", {130, -2}),
        ("by_value", "return", {0}),
    ],
)
def test_a_program_that_ends_in_a_handler_ends_and_the_message_comes_again(
    tmp_path: Path, way: str, end: str, codes: set[int]
) -> None:
    """``return``: the program ends while a handler is running, without closing its client."""
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(end: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "program.py", way, end],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    first = run(end)
    assert first.returncode in codes, first.stderr
    assert "never retrieved" not in first.stderr
    if end == "exit":
        assert "Traceback" not in first.stderr
    before = (tmp_path / "done").read_text().split()
    assert "5" not in before
    second = run("go on")
    assert second.returncode == 0, second.stderr
    after = (tmp_path / "done").read_text().split()
    assert {int(number) for number in after} == set(range(12))
