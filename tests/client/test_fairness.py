"""A channel or partition whose handler fails, is slow or waits does not stop the others of its group."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman import Client, ClientOptions, EndpointOptions, RetryOptions, Throttle, endpoint, record
from dragoman.adapters.memory import MemoryBroker
from dragoman.client.flight import Flight
from dragoman.client.lane import Batching, Intake
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import DONE, Outcome
from dragoman.core.broker import HoldingReceiver, Subscription
from dragoman.core.channel import Channel
from dragoman.core.message import Message
from dragoman.core.registry import Registry
from tests.client.waiting import until

BACKLOG = 1500
"""More than the window."""
FOR_EVER = 3600.0
MOST = ClientOptions().window * 5 // 4
"""In flight, if partitions are added to a member whose window is full."""
IMPATIENT = ClientOptions(drain_timeout=0.0)


@record
class Job:
    number: int


@pytest.fixture(params=["memory", "embedded", "kafka", "rabbitmq", "nats", "redis", "mosquitto"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        return request.getfixturevalue("memory")
    if request.param == "embedded":
        return f"embedded://{tmp_path / 'broker'}"
    return str(request.getfixturevalue(f"{request.param}_server").url)


@pytest.mark.parametrize("why", ["fails", "is slow", "is throttled"])
async def test_a_channel_that_stands_still_does_not_stop_another(
    broker: Any, registry: Registry, why: str
) -> None:
    name = secrets.token_hex(4)
    begun, done = 0, list[int]()
    failing = EndpointOptions(retry=RetryOptions(attempts=1000, delay=FOR_EVER, longest=FOR_EVER))
    throttle = [Throttle(1 / FOR_EVER)] if why == "is throttled" else []

    @endpoint(f"stuck-{name}", group=name, options=failing, middleware=throttle)
    async def on_stuck(job: Job) -> None:
        nonlocal begun
        begun += 1
        if why == "fails":
            raise ConnectionError
        await asyncio.Event().wait()

    @endpoint(f"other-{name}", group=name)
    async def on_other(job: Job) -> None:
        done.append(job.number)

    async with Client(broker, registry, [on_stuck, on_other], options=IMPATIENT) as client:
        await client.publish_many(f"stuck-{name}", [Job(number) for number in range(BACKLOG)])
        await until(lambda: begun)
        # As many as it may take.
        await until(lambda: client.in_flight > 50)
        for number in range(10):
            await client.publish(f"other-{name}", Job(number))
        await until(lambda: len(set(done)) == 10)
        assert client.in_flight <= MOST


async def test_a_partition_that_stands_still_does_not_stop_the_others(
    broker: Any, registry: Registry
) -> None:
    if isinstance(broker, str) and broker.startswith("mqtt"):
        pytest.skip("nothing is published to a partition of one's choice")
    channel, partitions = f"jobs-{secrets.token_hex(4)}", 4
    done: set[int] = set()

    @endpoint(channel, group=channel)
    async def on_job(job: Job) -> None:
        if job.number == 0:
            await asyncio.Event().wait()
        done.add(job.number)

    async with Client(broker, registry, options=IMPATIENT) as client:
        await client.producer(channel, Job)
        for partition in range(partitions):
            jobs = [Job(number) for number in range(partition * BACKLOG, (partition + 1) * BACKLOG)]
            await client.publish_many(channel, jobs, partition=partition)
    async with Client(broker, registry, [on_job], options=IMPATIENT) as client:
        await until(lambda: done >= set(range(BACKLOG, partitions * BACKLOG)), seconds=120)
        assert client.in_flight <= MOST
        assert not done & set(range(BACKLOG))


async def flight_over(memory: MemoryBroker, partitions: int) -> tuple[Flight, Any, asyncio.Event]:
    """What a loop uses, with handlers that wait for the event."""
    await memory.create(Channel("work", partitions))
    receiver = await memory.subscribe(Subscription(("work",), "g"))
    go = asyncio.Event()

    async def handle(message: Message) -> Outcome:
        await go.wait()
        return DONE

    assert isinstance(receiver, HoldingReceiver)
    return Flight(receiver, True, {"work": Intake(handle, 1, ChannelMetrics())}), receiver, go


@pytest.mark.parametrize("window", [2, 3, 5, 16, 40, 512])
@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 12])
async def test_the_window_is_never_exceeded_and_every_partition_has_a_part_of_it(
    memory: MemoryBroker, window: int, partitions: int
) -> None:
    flight, receiver, go = await flight_over(memory, partitions)
    backlog = [Message("work", b"x", partition=number % partitions) for number in range(partitions * 600)]
    # All but the last stand still first.
    await memory.publish([each for each in backlog if each.partition != partitions - 1])

    async def receive_all() -> None:
        while (room := flight.room(window)) > 0:
            found = await receiver.receive(room, 0.0)
            assert len(found) <= room
            if not found:
                return
            flight.take(found)
            assert flight.count <= window

    await receive_all()
    await memory.publish([each for each in backlog if each.partition == partitions - 1])
    await receive_all()
    places = [place for (_, place) in flight._places]
    if partitions <= window:
        assert set(places) == set(range(partitions))
    else:
        assert flight.count == window
    go.set()
    while flight.count:
        await flight.progress(60)
        await flight.settle()
        await receive_all()
    assert [lag.behind for lag in await memory.lag("work", "g")] == [0] * partitions
    await flight.stop()
    await receiver.close()


async def test_one_partition_alone_has_the_whole_window(memory: MemoryBroker) -> None:
    flight, receiver, _ = await flight_over(memory, 1)
    assert flight.room(100) == 100
    await memory.publish([Message("work", b"x", partition=0)] * 30)
    flight.take(await receiver.receive(100, 1.0))
    assert flight.room(100) == 70
    await flight.stop()
    await receiver.close()


class Member:
    """A receiver of partitions that may be taken from it."""

    def __init__(self, *partitions: int) -> None:
        self.assigned = set(partitions)

    @property
    def partitions(self) -> int:
        return len(self.assigned)

    def hold(self, places: Collection[tuple[str, int | None]]) -> None: ...

    def lost(self, message: Message) -> bool:
        return message.partition not in self.assigned

    async def receive(self, limit: int, timeout: float) -> Sequence[Message]:
        return ()

    async def acknowledge(self, messages: Sequence[Message]) -> None: ...

    async def release(self, messages: Sequence[Message], delay: float = 0.0) -> None: ...

    async def extend(self) -> None: ...

    async def close(self) -> None: ...


@pytest.mark.parametrize("left", [{0, 1}, {1}])
async def test_what_waits_of_a_revoked_partition_leaves_room_for_the_others(left: set[int]) -> None:
    begun: list[Message] = []

    async def handle(message: Message) -> Outcome:
        begun.append(message)
        await asyncio.Event().wait()
        return DONE

    receiver, window, in_flight = Member(0, 1, 2), 512, {0: 256, 2: 214}
    flight = Flight(receiver, True, {"work": Intake(handle, 1, ChannelMetrics())})
    for partition, count in in_flight.items():
        flight.take([Message("work", b"x", partition=partition, offset=at) for at in range(count)])
    await until(lambda: len(begun) == 2)
    receiver.assigned = left
    assert flight.room(window) > 0
    # What was begun is not finished. Of the partitions that have moved, nothing else is in flight.
    assert flight.count == sum(count if place in left else 1 for place, count in in_flight.items())
    await flight.stop()
    assert len(begun) == 2


async def test_a_handler_of_a_revoked_partition_takes_no_room_from_the_others() -> None:
    async def handle(message: Message) -> Outcome:
        await asyncio.Event().wait()
        return DONE

    receiver = Member(0, 1, 2)
    flight = Flight(receiver, True, {"work": Intake(handle, 1, ChannelMetrics())})
    for partition, count in {0: 1, 1: 7}.items():
        flight.take([Message("work", b"x", partition=partition, offset=at) for at in range(count)])
    await asyncio.sleep(0)
    receiver.assigned = {1, 2}
    assert flight.room(8) > 0
    await flight.stop()


async def test_a_revoked_partition_that_comes_back_is_handled_in_order() -> None:
    """Messages of it that still queue are not handled before earlier ones that were dropped."""
    seen: list[int] = []
    go = asyncio.Event()

    async def handle(messages: Sequence[Message]) -> Sequence[Outcome]:
        seen.extend(message.offset or 0 for message in messages)
        await go.wait()
        return [DONE] * len(messages)

    async def alone(message: Message) -> Outcome:
        raise NotImplementedError

    receiver = Member(0)
    flight = Flight(receiver, True, {"work": Intake(alone, 1, ChannelMetrics(), Batching(handle, 2, 0.05))})
    backlog = [Message("work", b"x", partition=0, offset=at) for at in range(5)]
    flight.take(backlog)
    await until(lambda: seen == [0, 1])
    receiver.assigned = set()
    go.set()
    # The lane drops what it finds revoked, and may then wait for a batch to become full.
    await asyncio.sleep(0.01)
    receiver.assigned = {0}
    flight.take(backlog[2:])
    await until(lambda: 4 in seen)
    assert seen == [0, 1, 2, 3, 4]
    await flight.stop()


async def test_a_flight_whose_tasks_were_cancelled_before_they_began_ends_at_once() -> None:
    async def handle(message: Message) -> Outcome:
        return DONE

    flight = Flight(Member(0), True, {"work": Intake(handle, 1, ChannelMetrics())})
    before = asyncio.all_tasks()
    flight.take([Message("work", b"x", partition=0, offset=0)])
    for task in asyncio.all_tasks() - before:
        task.cancel()
    async with asyncio.timeout(5):
        await flight.drain(60.0, 3.0)
