"""Reports reach the loop whoever brings them: a thread, or the loop itself while many are under way."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable

import pytest

from dragoman.adapters.kafka.reporting import _TICK, MANY, Reporting
from tests.client.waiting import until

PATIENCE = 60.0
LOOP = threading.main_thread().name
THREAD = "dragoman-kafka-reports"


class Driver:
    """Serves what is due, to whoever polls."""

    def __init__(self) -> None:
        self.due: deque[Callable[[], object]] = deque()
        self.came = threading.Condition()
        self.served_by: list[str] = []
        self.last = ""
        """Who has polled last."""

    def report(self, call: Callable[[], object]) -> None:
        with self.came:
            self.due.append(call)
            self.came.notify_all()

    def poll(self, timeout: float) -> int:
        self.last = threading.current_thread().name
        with self.came:
            self.came.wait_for(lambda: self.due, timeout)
            calls, self.due = self.due, deque()
        for call in calls:
            self.served_by.append(threading.current_thread().name)
            call()
        return len(calls)


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
async def reporting(driver: Driver) -> AsyncIterator[Reporting]:
    made = Reporting(driver.poll)
    yield made
    await asyncio.to_thread(made.close)


def resolve(done: asyncio.Future[None]) -> Callable[[], object]:
    loop = asyncio.get_running_loop()
    return lambda: loop.call_soon_threadsafe(done.set_result, None)


async def test_a_few_are_brought_by_the_thread(driver: Driver, reporting: Reporting) -> None:
    done = asyncio.get_running_loop().create_future()
    driver.report(resolve(done))
    async with asyncio.timeout(PATIENCE):
        await reporting.of(done, 1)
    assert driver.served_by == [THREAD]


async def test_many_are_brought_by_the_loop(driver: Driver, reporting: Reporting) -> None:
    done = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(reporting.of(done, MANY))
    async with asyncio.timeout(PATIENCE):
        # The thread may be waiting already, and takes what comes first.
        while LOOP not in driver.served_by:
            driver.report(lambda: None)
            await asyncio.sleep(0.001)
        driver.report(resolve(done))
        await waiting


async def test_what_takes_long_is_left_to_the_thread(driver: Driver, reporting: Reporting) -> None:
    """Nobody looks for hours a thousand times a second."""
    done = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(reporting.of(done, MANY))
    async with asyncio.timeout(PATIENCE):
        await until(lambda: driver.last == LOOP)
        await until(lambda: driver.last == THREAD)
        driver.report(resolve(done))
        await waiting
    assert driver.served_by == [THREAD]


async def test_the_thread_goes_on_when_a_batch_is_given_up(driver: Driver, reporting: Reporting) -> None:
    loop = asyncio.get_running_loop()
    waiting = asyncio.create_task(reporting.of(loop.create_future(), MANY))
    await asyncio.sleep(0)
    waiting.cancel()
    done = loop.create_future()
    driver.report(resolve(done))
    async with asyncio.timeout(PATIENCE):
        await reporting.of(done, 1)


def failing_once(driver: Driver, thread: str) -> Callable[[float], int]:
    """The driver's poll, which fails the first time that this thread asks."""
    failures = [RuntimeError("by the test")]

    def poll(timeout: float) -> int:
        if failures and threading.current_thread().name == thread:
            raise failures.pop()
        return driver.poll(timeout)

    return poll


async def is_brought(driver: Driver, reporting: Reporting) -> None:
    """One report reaches whoever waits for it."""
    done = asyncio.get_running_loop().create_future()
    driver.report(resolve(done))
    try:
        async with asyncio.timeout(PATIENCE):
            await reporting.of(done, 1)
    finally:
        await asyncio.to_thread(reporting.close)


async def test_the_thread_goes_on_when_the_loop_cannot(driver: Driver) -> None:
    reporting = Reporting(failing_once(driver, LOOP))
    with pytest.raises(RuntimeError, match="by the test"):
        await reporting.of(asyncio.get_running_loop().create_future(), MANY)
    # The thread may be waiting still, and would take what comes now.
    await asyncio.sleep(2 * _TICK)
    await is_brought(driver, reporting)


async def test_the_thread_goes_on_after_a_failure_of_its_own(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    await is_brought(driver, Reporting(failing_once(driver, THREAD)))
    assert [record.getMessage() for record in caplog.records] == [
        "A report of the producer could not be taken."
    ]
