"""The delivery loop: what is acknowledged when, what is given back, and what failures leave behind."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import pytest

from dragoman import (
    Client,
    ClientOptions,
    Delivery,
    EndpointOptions,
    Handler,
    Key,
    Message,
    Outcome,
    Payload,
    RetryOptions,
    endpoint,
)
from dragoman.client import consumer as loop
from dragoman.client import flight
from dragoman.client.flight import Flight
from dragoman.core.backoff import Backoff
from dragoman.core.broker import Acknowledgement
from dragoman.core.errors import BrokerUnavailable, DamagedLog
from dragoman.core.run import Listed
from tests.client.scripted import ScriptedBroker, numbered
from tests.client.waiting import until

NO_LETTERS = EndpointOptions(retry=RetryOptions(attempts=1), dead_letter=None, invalid=None)
TWO_ATTEMPTS = EndpointOptions(retry=RetryOptions(attempts=2, delay=0.0))


def worker(handle: Callable[[int], Awaitable[None]], options: EndpointOptions = TWO_ATTEMPTS) -> Any:
    """An endpoint on the channel ``work`` that is given the number in each payload."""

    @endpoint("work", options=options)
    async def work(payload: Annotated[bytes, Payload], key: Annotated[bytes | None, Key]) -> None:
        await handle(int(payload))

    return work


def client(broker: ScriptedBroker, *controllers: object, **options: Any) -> Client:
    return Client(broker, "memory://", controllers, options=ClientOptions(**options))


@pytest.fixture(params=list(Acknowledgement))
async def broker(request: pytest.FixtureRequest) -> Any:
    broker = ScriptedBroker(request.param)
    await broker.connect()
    yield broker
    await broker.close()


@pytest.fixture
async def cumulative() -> Any:
    broker = ScriptedBroker(Acknowledgement.CUMULATIVE)
    await broker.connect()
    yield broker
    await broker.close()


async def test_messages_of_a_partition_are_handled_in_order_and_acknowledged(broker: ScriptedBroker) -> None:
    handled: list[int] = []

    async def handle(number: int) -> None:
        if number % 3 == 0:
            await asyncio.sleep(0)
        handled.append(number)

    async with client(broker, worker(handle)):
        broker.receiver.deliver(*numbered(10))
        broker.receiver.deliver(*numbered(10, start=10))
        await until(lambda: 19 in broker.receiver.offsets)
    assert handled == list(range(20))
    if broker.capabilities.acknowledgement is Acknowledgement.EACH:
        assert broker.receiver.offsets == list(range(20))


async def test_a_message_is_not_acknowledged_before_its_handler_has_finished(broker: ScriptedBroker) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def handle(number: int) -> None:
        started.set()
        await go.wait()

    async with client(broker, worker(handle)):
        broker.receiver.deliver(*numbered(1))
        await started.wait()
        await until(lambda: len(broker.receiver.limits) > 3)
        assert broker.receiver.offsets == []
        go.set()
        await until(lambda: broker.receiver.offsets == [0])


async def test_only_the_lowest_unfinished_message_bounds_what_is_committed(
    cumulative: ScriptedBroker,
) -> None:
    slow, finished = asyncio.Event(), set[int]()

    async def handle(number: int) -> None:
        if number == 2:
            await slow.wait()
        finished.add(number)

    options = EndpointOptions(concurrency=16)
    async with client(cumulative, worker(handle, options)):
        cumulative.receiver.deliver(*numbered(50))
        await until(lambda: cumulative.receiver.offsets and len(finished) > 10)
        rounds = len(cumulative.receiver.limits)
        await until(lambda: len(cumulative.receiver.limits) > rounds + 2)
        assert max(cumulative.receiver.offsets) == 1
        slow.set()
        await until(lambda: max(cumulative.receiver.offsets) == 49)
    assert finished == set(range(50))


async def test_what_comes_again_while_it_is_handled_is_not_kept(cumulative: ScriptedBroker) -> None:
    go = asyncio.Event()

    async def handle(number: int) -> None:
        await go.wait()

    def runs() -> int:
        gc.collect()
        return sum(isinstance(each, Listed) for each in gc.get_objects())

    async with client(cumulative, worker(handle)) as working:
        before = runs()
        for _ in range(10):
            cumulative.receiver.deliver(*numbered(3))
        await until(lambda: working.metrics.of("work").received == 30)
        assert runs() - before == 1
        go.set()
        await until(lambda: 2 in cumulative.receiver.offsets)


async def test_each_message_is_acknowledged_alone_where_the_broker_can() -> None:
    broker = ScriptedBroker(Acknowledgement.EACH)
    await broker.connect()
    slow = asyncio.Event()

    async def handle(number: int) -> None:
        if number == 0:
            await slow.wait()

    async with client(broker, worker(handle, EndpointOptions(concurrency=2))):
        keys = numbered(1, key="a") + numbered(1, start=1, key="a")
        other = next(m for m in numbered(200, start=2) if hash(m.key) % 2 != hash(b"a") % 2)
        broker.receiver.deliver(*keys, other)
        await until(lambda: broker.receiver.offsets == [other.offset])
        slow.set()
        await until(lambda: broker.receiver.offsets == [other.offset, 0, 1])
    await broker.close()


async def test_no_more_than_the_window_is_in_flight(broker: ScriptedBroker) -> None:
    go, running = asyncio.Event(), 0

    async def handle(number: int) -> None:
        nonlocal running
        running += 1
        await go.wait()

    async with client(broker, worker(handle, EndpointOptions(concurrency=32)), window=5) as it:
        broker.receiver.deliver(*numbered(40))
        await until(lambda: it.in_flight == 5)
        assert broker.receiver.limits[0] == 5
        received = len(broker.receiver.limits)
        await asyncio.sleep(0)
        assert len(broker.receiver.limits) == received
        assert running <= 5
        go.set()
        await until(lambda: 39 in broker.receiver.offsets)


async def test_what_is_handled_does_not_count_as_in_flight(broker: ScriptedBroker) -> None:
    seen: list[int] = []

    async def handle(number: int) -> None:
        seen.append(running.in_flight)

    async with client(broker, worker(handle)) as running:
        broker.receiver.deliver(*numbered(3))
        await until(lambda: 2 in broker.receiver.offsets)
    assert seen == [3, 2, 1]


async def test_a_full_window_that_is_handled_while_the_broker_is_told_stops_nothing(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[int] = []
    told = asyncio.Event()

    async def handle(number: int) -> None:
        await told.wait()
        handled.append(number)

    async def extend() -> None:
        monkeypatch.setattr(loop, "BEAT", 3600.0)
        told.set()
        await until(lambda: len(handled) >= 4)

    async with client(broker, worker(handle), window=4):
        broker.receiver.extend = extend  # type: ignore[method-assign]
        broker.receiver.deliver(*numbered(4))
        broker.receiver.deliver(*numbered(4, start=4))
        await until(lambda: 7 in broker.receiver.offsets, seconds=20)
    assert handled == list(range(8))


async def test_a_message_given_back_takes_those_behind_it_along(cumulative: ScriptedBroker) -> None:
    handled: list[int] = []
    healthy = False

    async def handle(number: int) -> None:
        handled.append(number)
        if number == 3 and not healthy:
            raise ValueError

    async with client(cumulative, worker(handle, NO_LETTERS)):
        receiver = cumulative.receiver
        receiver.deliver(*numbered(6))
        await until(lambda: receiver.released)
        assert [message.offset for message, _ in receiver.released] == [3]
        assert handled == [0, 1, 2, 3]
        assert max(receiver.offsets) == 2
        healthy = True
        receiver.deliver(*numbered(3, start=3))
        await until(lambda: 5 in receiver.offsets)
    assert handled == [0, 1, 2, 3, 3, 4, 5]


async def test_messages_that_arrive_while_one_is_given_back_are_not_acknowledged(
    cumulative: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are behind it, so acknowledging them would acknowledge it, too."""
    # The messages behind it arrive in the same call of receive, not in the next one after the release.
    monkeypatch.setattr(loop, "BUSY_WAIT", 5.0)
    handled: list[int] = []
    fail, failed = asyncio.Event(), False

    async def handle(number: int) -> None:
        nonlocal failed
        handled.append(number)
        if number == 0 and not failed:
            failed = True
            await fail.wait()
            raise ValueError

    async with client(cumulative, worker(handle, NO_LETTERS)):
        receiver = cumulative.receiver
        receiver.deliver(*numbered(1))
        await until(lambda: handled)
        fail.set()
        receiver.deliver(*numbered(3, start=1))
        await until(lambda: receiver.released)
        assert receiver.offsets == []
        receiver.deliver(*numbered(4))
        await until(lambda: 3 in receiver.offsets)
    assert [message.offset for message, _ in receiver.released] == [0]
    assert handled[1] == 0


async def test_a_revoked_message_is_not_handled_any_more(broker: ScriptedBroker) -> None:
    handled: list[int] = []
    go = asyncio.Event()

    async def handle(number: int) -> None:
        handled.append(number)
        if number == 0:
            await go.wait()

    async with client(broker, worker(handle)) as it:
        broker.receiver.deliver(*numbered(3))
        await until(lambda: handled)
        broker.receiver.revoked = {0, 1, 2}
        # After a handler that was quicker than this nobody would ask whether the next message is ours.
        await asyncio.sleep(2 * flight._OURS_FOR)
        go.set()
        await until(lambda: it.in_flight == 0)
        broker.receiver.deliver(*numbered(1, start=9))
        await until(lambda: 9 in broker.receiver.offsets)
        assert it.metrics.of("work").revoked == 2
    assert handled == [0, 9]
    assert set(broker.receiver.offsets) == {9}


async def test_a_broker_that_goes_away_is_waited_for(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "REST", Backoff(0.001, 0.001))
    handled: list[int] = []

    async def handle(number: int) -> None:
        handled.append(number)

    async with client(broker, worker(handle)):
        first = broker.receiver
        first.acknowledge_errors = [BrokerUnavailable("gone")]
        first.deliver(*numbered(2))
        await until(lambda: 1 in first.offsets)
        for _ in range(loop.PATIENCE):
            first.fail(BrokerUnavailable("gone"))
        await until(lambda: len(broker.receivers) == 2)
        assert first.closed
        broker.receiver.deliver(*numbered(2, start=2))
        await until(lambda: 3 in broker.receiver.offsets)
    assert handled == [0, 1, 2, 3]


async def test_damage_is_logged_once_for_each_place_and_the_receiver_stays(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dragoman.client.damage.REST_S", 0.001)
    handled: list[int] = []

    async def handle(number: int) -> None:
        handled.append(number)

    def damage(first: int) -> DamagedLog:
        return DamagedLog(first, first + 2, next="Restore it.", folder="/log", channel="bad", partition=1)

    with caplog.at_level(logging.INFO):
        async with client(broker, worker(handle)):
            for number in range(5 * loop.PATIENCE):
                broker.receiver.fail(damage(7))
                if number % 4 == 0:
                    broker.receiver.deliver(*numbered(1, start=number // 4))
            broker.receiver.fail(damage(20))
            broker.receiver.deliver(*numbered(1, start=4))
            await until(lambda: 4 in broker.receiver.offsets)

    assert handled == [0, 1, 2, 3, 4]
    assert len(broker.receivers) == 1
    lines: list[Any] = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert [(each.offset, each.count) for each in lines] == [(7, 2), (20, 2)]
    for each in lines:
        assert each.exc_info is None and "Restore it." in each.getMessage()
        assert (each.error_code, each.folder, each.channel, each.partition) == (
            "broker.damaged",
            "/log",
            "bad",
            1,
        )


async def test_an_unforeseen_error_of_an_adapter_does_not_end_the_loop(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "REST", Backoff(0.001, 0.001))

    async def handle(number: int) -> None:
        pass

    async with client(broker, worker(handle)):
        broker.receiver.fail(RuntimeError("a bug"))
        broker.receiver.deliver(*numbered(1))
        await until(lambda: broker.receiver.offsets == [0])


async def test_what_arrives_while_an_endpoint_stops_its_group_is_not_handled(broker: ScriptedBroker) -> None:
    handled: list[int] = []
    failing = asyncio.Event()

    async def handle(number: int) -> None:
        handled.append(number)
        if number == 0:
            await failing.wait()
            raise RuntimeError("by the test")

    stopping = EndpointOptions(retry=RetryOptions(attempts=1), on_failure="stop")
    async with client(broker, worker(handle, stopping)):
        receiver = broker.receiver
        receiver.deliver(*numbered(1))
        await until(lambda: handled == [0])
        failing.set()
        receiver.deliver(*(each._replace(partition=1) for each in numbered(3, start=1)))
        await until(lambda: receiver.closed)
    assert handled == [0]
    assert receiver.offsets == []


async def test_closing_lets_running_handlers_finish_and_leaves_queued_messages(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[int] = []
    started, go = asyncio.Event(), asyncio.Event()

    async def handle(number: int) -> None:
        started.set()
        await go.wait()
        handled.append(number)

    async def drain(self: Flight, timeout: float, beat: float) -> None:
        asyncio.get_running_loop().call_soon(go.set)
        await real_drain(self, timeout, beat)

    real_drain = Flight.drain
    monkeypatch.setattr(Flight, "drain", drain)
    async with client(broker, worker(handle)):
        broker.receiver.deliver(*numbered(3))
        await started.wait()
    assert handled == [0]
    assert broker.receiver.offsets == [0]
    assert broker.receiver.closed


async def test_closing_leaves_no_gap_before_what_is_handled(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With cumulative acknowledgement, what is handled behind a gap would be delivered again."""
    handled: list[int] = []
    running, go = asyncio.Event(), asyncio.Event()

    async def handle(number: int) -> None:
        if number == 5:
            running.set()
        if number in (0, 5):
            await go.wait()
        handled.append(number)

    async def drain(self: Flight, timeout: float, beat: float) -> None:
        asyncio.get_running_loop().call_soon(go.set)
        await real_drain(self, timeout, beat)

    real_drain = Flight.drain
    monkeypatch.setattr(Flight, "drain", drain)
    async with client(broker, worker(handle, EndpointOptions(concurrency=2))):
        # Without keys they take turns: the even ones queue in one lane, the odd ones in the other.
        broker.receiver.deliver(*(message._replace(key=None) for message in numbered(12)))
        await running.wait()
    receiver = broker.receiver
    if broker.capabilities.acknowledgement is Acknowledgement.CUMULATIVE:
        assert sorted(handled) == [0, 1, 2, 3, 4, 5]
        assert max(receiver.offsets) == 5
    else:
        assert sorted(handled) == sorted(receiver.offsets) == [0, 1, 3, 5]
    assert receiver.released == []


async def test_closing_acknowledges_what_is_handled_before_the_last_handler_ends(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should its partition move meanwhile, it is not repeated."""
    running, closing, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handle(number: int) -> None:
        if number == 1:
            running.set()
        await (closing if number == 0 else go).wait()

    async def drain(self: Flight, timeout: float, beat: float) -> None:
        asyncio.get_running_loop().call_soon(closing.set)
        await real_drain(self, timeout, 10_000.0)

    real_drain = Flight.drain
    monkeypatch.setattr(Flight, "drain", drain)

    async def when_acknowledged() -> None:
        await until(lambda: broker.receiver.offsets == [0])
        go.set()

    two = worker(handle, EndpointOptions(concurrency=2))
    async with (
        asyncio.timeout(60),
        asyncio.TaskGroup() as tasks,
        client(broker, two, drain_timeout=10_000.0),
    ):
        broker.receiver.deliver(*(message._replace(key=None) for message in numbered(2)))
        await running.wait()
        tasks.create_task(when_acknowledged())
    assert sorted(broker.receiver.offsets) == [0, 1]


async def test_a_failed_acknowledgement_ends_no_handler_at_closing(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again while they go on."""
    running, closing, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handle(number: int) -> None:
        if number == 1:
            running.set()
        await (closing if number == 0 else go).wait()

    async def drain(self: Flight, timeout: float, beat: float) -> None:
        broker.receiver.acknowledge_errors += [BrokerUnavailable("Away.") for _ in range(3)]
        asyncio.get_running_loop().call_soon(closing.set)
        await real_drain(self, timeout, beat)

    real_drain = Flight.drain
    monkeypatch.setattr(Flight, "drain", drain)

    async def when_acknowledged() -> None:
        await until(lambda: broker.receiver.offsets == [0])
        go.set()

    two = worker(handle, EndpointOptions(concurrency=2))
    async with (
        asyncio.timeout(60),
        asyncio.TaskGroup() as tasks,
        client(broker, two, drain_timeout=10_000.0),
    ):
        broker.receiver.deliver(*(message._replace(key=None) for message in numbered(2)))
        await running.wait()
        tasks.create_task(when_acknowledged())
    assert sorted(broker.receiver.offsets) == [0, 1]


async def test_a_handler_that_outlives_the_drain_timeout_is_ended_unacknowledged(
    broker: ScriptedBroker,
) -> None:
    started, cancelled = asyncio.Event(), False

    async def handle(number: int) -> None:
        nonlocal cancelled
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled = True
            raise

    async with client(broker, worker(handle), drain_timeout=0.01):
        broker.receiver.deliver(*numbered(1))
        await started.wait()
    assert cancelled
    assert broker.receiver.offsets == []
    assert broker.receiver.closed


async def test_closing_does_not_wait_for_the_rest_between_two_attempts(broker: ScriptedBroker) -> None:
    called = asyncio.Event()

    async def handle(number: int) -> None:
        called.set()
        raise ValueError

    patient = EndpointOptions(retry=RetryOptions(attempts=9, delay=10_000.0, longest=10_000.0))
    async with client(broker, worker(handle, patient), drain_timeout=10_000.0):
        broker.receiver.deliver(*numbered(1))
        await called.wait()
    assert broker.receiver.offsets == []
    assert [message.offset for message, _ in broker.receiver.released] == [0]


async def test_the_broker_is_told_while_handlers_take_long(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "BEAT", 0.01)
    go = asyncio.Event()

    async def handle(number: int) -> None:
        await go.wait()

    async with client(broker, worker(handle), window=1):
        broker.receiver.deliver(*numbered(1))
        await until(lambda: broker.receiver.extended >= 3)
        go.set()
        await until(lambda: broker.receiver.offsets == [0])


async def test_a_plain_function_runs_in_a_thread(broker: ScriptedBroker) -> None:
    threads: set[int] = set()

    @endpoint("work")
    def work(payload: Annotated[bytes, Payload]) -> None:
        threads.add(threading.get_ident())

    async with client(broker, work):
        broker.receiver.deliver(*numbered(3))
        await until(lambda: 2 in broker.receiver.offsets)
    assert threads and threading.get_ident() not in threads


async def test_a_decorated_coroutine_function_is_awaited_before_its_message_is_acknowledged(
    broker: ScriptedBroker,
) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def handle(number: int) -> None:
        started.set()
        await go.wait()

    @endpoint("work")
    def work(payload: Annotated[bytes, Payload]) -> Any:
        return handle(int(payload))

    async with client(broker, work):
        broker.receiver.deliver(*numbered(1))
        await started.wait()
        await until(lambda: len(broker.receiver.limits) > 3)
        assert broker.receiver.offsets == []
        go.set()
        await until(lambda: broker.receiver.offsets == [0])


async def test_a_cancellation_inside_a_handler_is_a_failure_like_others(broker: ScriptedBroker) -> None:
    calls: list[int] = []

    async def handle(number: int) -> None:
        calls.append(number)
        if number == 0:
            task = asyncio.create_task(asyncio.sleep(3600))
            task.cancel()
            await task

    async with client(broker, worker(handle)) as it:
        broker.receiver.deliver(*numbered(2))
        await until(lambda: 1 in broker.receiver.offsets)
        assert it.metrics.of("work").dead == 1
    assert calls == [0, 0, 1]


async def test_a_cancellation_inside_a_middleware_is_a_failure_like_others(broker: ScriptedBroker) -> None:
    async def faulty(delivery: Delivery, next: Handler) -> Outcome:
        if delivery.value == b"0":
            raise asyncio.CancelledError
        return await next(delivery)

    @endpoint("work", options=TWO_ATTEMPTS, middleware=[faulty])
    async def work(payload: Annotated[bytes, Payload]) -> None: ...

    async with client(broker, work) as it:
        broker.receiver.deliver(*numbered(2, key="k"))
        await until(lambda: 1 in broker.receiver.offsets)
        assert it.metrics.of("work").dead == 1


@pytest.mark.parametrize("batches", [False, True])
async def test_a_cancellation_inside_a_strategy_keeps_the_message_and_harms_no_other(
    broker: ScriptedBroker, batches: bool
) -> None:
    async def strategy(delivery: Delivery, error: Exception) -> Outcome:
        raise asyncio.CancelledError

    options = EndpointOptions(retry=RetryOptions(attempts=1), on_failure=strategy, batch_wait=0.0)

    @endpoint("work", options=options)
    async def one(payload: Annotated[bytes, Payload]) -> None:
        if payload == b"0":
            raise ValueError

    @endpoint("work", options=options)
    async def many(payloads: Annotated[list[bytes], Payload]) -> None:
        if b"0" in payloads:
            raise ValueError

    async with client(broker, many if batches else one):
        broker.receiver.deliver(*numbered(1, key="k"))
        await until(lambda: broker.receiver.released)
        assert broker.receiver.offsets == []
        broker.receiver.deliver(*numbered(1, key="k", start=1))
        await until(lambda: broker.receiver.offsets == [1])


async def test_a_letter_that_cannot_be_sent_keeps_the_message_unacknowledged(broker: ScriptedBroker) -> None:
    async def handle(number: int) -> None:
        if number == 0:
            raise ValueError

    broker.refuse_publish = {"work.dead"}
    async with client(broker, worker(handle)):
        broker.receiver.deliver(*numbered(1))
        await until(lambda: broker.receiver.released)
        assert broker.refused == 1
        assert broker.receiver.offsets == []
        broker.refuse_publish.clear()
        broker.receiver.deliver(*numbered(1))
        await until(lambda: broker.receiver.offsets == [0])
    assert broker.log().partitions("work.dead")[0] == (0, 1)


async def test_a_message_delivered_too_often_is_not_tried_again(broker: ScriptedBroker) -> None:
    handled: list[int] = []

    async def handle(number: int) -> None:
        handled.append(number)

    async with client(broker, worker(handle, EndpointOptions(deliveries=3))):
        broker.receiver.deliver(*(message._replace(attempt=4) for message in numbered(1)))
        broker.receiver.deliver(*(message._replace(attempt=3) for message in numbered(1, start=1)))
        await until(lambda: 1 in broker.receiver.offsets)
    assert handled == [1]
    assert broker.log().partitions("work.dead")[0] == (0, 1)


async def test_messages_of_one_key_keep_their_order_with_many_handlers_at_once(
    broker: ScriptedBroker,
) -> None:
    handled: dict[bytes, list[int]] = {b"a": [], b"b": [], b"c": []}

    @endpoint("work", options=EndpointOptions(concurrency=8))
    async def work(payload: Annotated[bytes, Payload], key: Annotated[bytes, Key]) -> None:
        for _ in range(int(payload) % 4):
            await asyncio.sleep(0)
        handled[key].append(int(payload))

    messages = [
        Message("work", str(number).encode(), b"abc"[number % 3 : number % 3 + 1], (), 0, number)
        for number in range(60)
    ]
    async with client(broker, work):
        broker.receiver.deliver(*messages)
        await until(lambda: 59 in broker.receiver.offsets)
    assert all(numbers == sorted(numbers) and len(numbers) == 20 for numbers in handled.values())
