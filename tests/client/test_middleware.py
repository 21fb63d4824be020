"""The middleware that comes along: limits in time and rate, and rest after many failures."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Any

import pytest

from dragoman import (
    Client,
    ClientOptions,
    Delivery,
    EndpointOptions,
    Handler,
    Outcome,
    Payload,
    RetryOptions,
    endpoint,
)
from dragoman.adapters.memory import MemoryBroker
from dragoman.client import headers as names
from dragoman.client.batch import Batch
from dragoman.client.delivery import Route
from dragoman.client.middleware.circuit_breaker import CircuitBreaker
from dragoman.client.middleware.deduplicate import Deduplicate
from dragoman.client.middleware.throttle import Throttle
from dragoman.client.middleware.timeout import timeout
from dragoman.client.outcome import DONE, again
from dragoman.core.channel import Channel
from dragoman.core.errors import ConfigurationError
from dragoman.core.message import Message
from dragoman.core.registry import Registry
from tests.client.conftest import payloads
from tests.client.loans import LoanRequest
from tests.client.scripted import ScriptedBroker
from tests.client.waiting import until

ONCE = EndpointOptions(retry=RetryOptions(attempts=1))


class Clock:
    """Stands still unless somebody rests."""

    def __init__(self) -> None:
        self.now = 100.0
        self.rests: list[float] = []
        self.closing = False

    def __call__(self) -> float:
        return self.now

    async def pause(self, seconds: float) -> bool:
        self.rests.append(round(seconds, 6))
        self.now += seconds
        return not self.closing

    def delivery(self) -> Delivery:
        return Delivery(Message("c", b""), Route("e", "g", lambda frame: frame, pause=self.pause))


async def succeed(delivery: Delivery) -> Outcome:
    return DONE


async def fail(delivery: Delivery) -> Outcome:
    raise OSError


async def test_a_handler_that_takes_too_long_has_failed(memory: MemoryBroker, registry: Registry) -> None:
    ended: list[bool] = []

    @endpoint("loans", options=ONCE, middleware=[timeout(0.01)])
    async def on_request(request: LoanRequest) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            ended.append(True)

    async with Client(memory, registry, [on_request]) as client:
        await client.publish("loans", LoanRequest(1, 1.0, 1))
        await until(lambda: client.metrics.of("loans").dead)
    [letter] = payloads(memory, "loans.dead")
    assert letter.header(names.ERROR_CODE) == b"client.handler-timeout"
    assert ended == [True]


async def test_a_timeout_of_the_handlers_own_is_left_alone() -> None:
    async def own(delivery: Delivery) -> Outcome:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await timeout(60)(Clock().delivery(), own)


async def test_a_throttle_lets_so_many_through_and_a_burst_at_once() -> None:
    clock = Clock()
    throttle = Throttle(rate=10, burst=3, clock=clock)
    for _ in range(6):
        assert await throttle(clock.delivery(), succeed) is DONE
    assert clock.rests == [0.1, 0.1, 0.1]
    clock.now += 60
    assert [throttle.wait() for _ in range(3)] == [0.0, 0.0, 0.0]


async def test_what_waits_for_its_turn_is_given_back_when_the_client_closes() -> None:
    clock = Clock()
    throttle = Throttle(rate=1, clock=clock)
    await throttle(clock.delivery(), succeed)
    clock.closing = True
    assert await throttle(clock.delivery(), succeed) == again()


async def test_a_breaker_opens_after_failures_in_a_row_and_tries_again_after_a_rest() -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures=3, rest=30, clock=clock)
    for handler in (fail, fail, succeed, fail, fail):
        with pytest.raises(OSError) if handler is fail else _nothing():
            await breaker(clock.delivery(), handler)
    assert not breaker.open
    with pytest.raises(OSError):
        await breaker(clock.delivery(), fail)
    assert breaker.open
    with pytest.raises(OSError):
        await breaker(clock.delivery(), fail)
    assert clock.rests == [30]
    assert await breaker(clock.delivery(), succeed) is DONE
    assert clock.rests == [30, 30]
    assert not breaker.open


async def test_only_one_message_is_the_trial() -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures=1, rest=5, clock=clock)
    with pytest.raises(OSError):
        await breaker(clock.delivery(), fail)
    clock.now += 6
    going, calls = asyncio.Event(), []

    async def slow(delivery: Delivery) -> Outcome:
        calls.append(delivery)
        await going.wait()
        return DONE

    trials = [asyncio.create_task(breaker(clock.delivery(), slow)) for _ in range(3)]
    await until(lambda: calls)
    await asyncio.sleep(0)
    assert len(calls) == 1
    going.set()
    assert await asyncio.gather(*trials) == [DONE] * 3
    assert len(calls) == 3


async def test_errors_that_do_not_count_leave_the_breaker_closed() -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures=1, only=(ConnectionError,), clock=clock)
    with pytest.raises(OSError):
        await breaker(clock.delivery(), fail)
    assert not breaker.open


async def test_no_message_is_lost_behind_an_open_breaker(memory: MemoryBroker, registry: Registry) -> None:
    got: list[int] = []
    down = [4]

    @endpoint(
        "loans",
        options=EndpointOptions(retry=RetryOptions(attempts=3, delay=0.0)),
        middleware=[CircuitBreaker(failures=2, rest=0.05)],
    )
    async def on_request(request: LoanRequest) -> None:
        if down[0]:
            down[0] -= 1
            raise ConnectionError
        got.append(request.request_id)

    await memory.create(Channel("loans", 1))
    async with Client(memory, registry, [on_request]) as client:
        await client.publish_many("loans", [LoanRequest(n, 1.0, 1) for n in range(5)])
        await until(lambda: len(got) + client.metrics.of("loans").dead == 5)
        assert client.metrics.of("loans").dead == 1
    assert got == [1, 2, 3, 4]


async def test_an_open_breaker_does_not_keep_the_client_from_closing(
    memory: MemoryBroker, registry: Registry
) -> None:
    breaker = CircuitBreaker(failures=1, rest=600)

    @endpoint("loans", options=EndpointOptions(retry=RetryOptions(attempts=9, delay=0)), middleware=[breaker])
    async def on_request(request: LoanRequest) -> None:
        raise ConnectionError

    async with asyncio.timeout(60):
        options = ClientOptions(drain_timeout=300)
        async with Client(memory, registry, [on_request], options=options) as client:
            await client.publish("loans", LoanRequest(1, 1.0, 1))
            await until(lambda: breaker.open)
    assert sum(lag.behind for lag in await memory.lag("loans")) == 1


async def test_keys_are_handled_side_by_side_and_each_in_order(
    memory: MemoryBroker, registry: Registry
) -> None:
    order: dict[int, list[int]] = {0: [], 1: [], 2: []}
    running: set[int] = set()
    most = 0

    async def watching(delivery: Delivery, next: Handler) -> Outcome:
        nonlocal most
        key = int(delivery.message.key or b"")
        assert key not in running
        running.add(key)
        most = max(most, len(running))
        try:
            return await next(delivery)
        finally:
            running.discard(key)

    @endpoint("loans", options=EndpointOptions(concurrency=64), middleware=[watching])
    async def on_request(request: LoanRequest) -> None:
        await asyncio.sleep(0.001)
        order[request.term_in_months].append(request.request_id)

    await memory.create(Channel("loans", 1))
    async with Client(memory, registry, [on_request]) as client:
        requests = [LoanRequest(n, 1.0, n % 3) for n in range(30)]
        await client.publish_many("loans", requests, key=lambda r: str(r.term_in_months))
        await until(lambda: sum(map(len, order.values())) == 30)
    assert all(some == sorted(some) for some in order.values())
    assert sum(lag.behind for lag in await memory.lag("loans")) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: timeout(0),
        lambda: Throttle(0),
        lambda: Throttle(1, burst=0),
        lambda: CircuitBreaker(failures=0),
        lambda: CircuitBreaker(rest=0),
        lambda: Deduplicate(0),
    ],
)
def test_limits_that_let_nothing_through_are_refused(make: Any) -> None:
    with pytest.raises(ConfigurationError):
        make()


class _nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


async def test_what_was_handled_is_dropped_when_it_comes_again(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[int] = []
    once = Deduplicate()

    @endpoint("loans", options=ONCE, middleware=[once])
    async def on_request(request: LoanRequest) -> None:
        got.append(request.request_id)
        if request.request_id == 2 and got.count(2) == 1:
            raise ValueError

    async with Client(memory, registry, [on_request]) as client:
        for number, id in ((1, "a"), (1, "a"), (2, "b"), (2, "b"), (3, "c")):
            await client.publish(
                "loans", LoanRequest(number, 1.0, 1), headers={names.MESSAGE_ID: id}, partition=0
            )
        await until(lambda: 3 in got)
    assert got == [1, 2, 2, 3]
    assert once.dropped == 1


async def test_one_memory_for_a_whole_client_keeps_groups_and_channels_apart(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[str] = []

    def taker(channel: str, group: str) -> Any:
        @endpoint(channel, group=group)
        async def take(request: LoanRequest) -> None:
            got.append(f"{group} {channel}")

        return take

    takers = [taker("loans", "one"), taker("loans", "two"), taker("copies", "two")]
    async with Client(memory, registry, takers, middleware=[Deduplicate()]) as client:
        for channel in ("loans", "copies", "loans", "copies"):
            await client.publish(channel, LoanRequest(1, 1.0, 1), headers={names.MESSAGE_ID: "a"})
        await client.publish("loans", LoanRequest(2, 1.0, 1))
        await until(lambda: client.metrics.total("handled") == 8)
    assert sorted(got) == ["one loans", "one loans", "two copies", "two loans", "two loans"]


async def test_a_handler_that_fails_for_a_smaller_batch_is_no_fault_of_the_middleware(
    memory: MemoryBroker, registry: Registry
) -> None:
    once = Deduplicate(by=lambda delivery: delivery.message.key)

    @endpoint("loans", options=ONCE, middleware=[once])
    async def on_requests(requests: list[LoanRequest]) -> None:
        raise ValueError("No loans today.")

    async with Client(memory, registry, [on_requests]) as client:
        await client.publish("loans", LoanRequest(1, 1.0, 1), key="k")
        await until(lambda: client.metrics.of("loans").dead)
    [letter] = payloads(memory, "loans.dead")
    assert letter.header(names.ERROR_MESSAGE) == b"No loans today."


async def test_a_copy_waits_for_the_first_and_goes_if_that_one_fails() -> None:
    once, clock = Deduplicate(by=lambda delivery: "same"), Clock()
    go = asyncio.Event()
    calls: list[int] = []

    async def first_fails(delivery: Delivery) -> Outcome:
        calls.append(len(calls))
        await go.wait()
        if calls == [0]:
            raise OSError
        return DONE

    tasks = [asyncio.create_task(once(clock.delivery(), first_fails)) for _ in range(3)]
    await until(lambda: calls)
    await asyncio.sleep(0)
    assert calls == [0]
    go.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in results].count(OSError) == 1
    assert calls == [0, 1]
    assert once.dropped == 1


async def test_only_so_many_are_remembered() -> None:
    once, clock = Deduplicate(remember=2, by=lambda delivery: delivery.message.payload), Clock()
    calls: list[bytes | None] = []

    async def count(delivery: Delivery) -> Outcome:
        calls.append(delivery.message.payload)
        return DONE

    for payload in (b"a", b"b", b"b", b"a", b"c", b"d", b"c", b"a"):
        delivery = clock.delivery()
        delivery.message = delivery.message._replace(payload=payload)
        await once(delivery, count)
    assert calls == [b"a", b"b", b"c", b"d", b"a"]


async def test_of_a_batch_only_known_messages_are_dropped() -> None:
    once, clock = Deduplicate(by=lambda delivery: delivery.message.payload), Clock()
    calls: list[list[bytes | None]] = []

    def batch(*payloads: bytes) -> Batch:
        members = [clock.delivery() for _ in payloads]
        for each, payload in zip(members, payloads, strict=True):
            each.message = each.message._replace(payload=payload)
        return Batch(members)

    async def note(delivery: Delivery) -> Outcome:
        assert isinstance(delivery, Batch)
        calls.append([each.message.payload for each in delivery.members])
        return DONE

    for each in (batch(b"a", b"b"), batch(b"a", b"b", b"c"), batch(b"c", b"a"), batch(b"d", b"d")):
        assert await once(each, note) is DONE
    assert calls == [[b"a", b"b"], [b"c"], [b"d"]]
    assert once.dropped == 5


async def test_a_channel_that_was_made_anew_has_messages_that_were_not_handled() -> None:
    once, clock = Deduplicate(), Clock()
    calls: list[int | None] = []

    async def note(delivery: Delivery) -> Outcome:
        calls.append(delivery.message.timestamp)
        return DONE

    for timestamp in (1, 1, 2, 2):
        delivery = clock.delivery()
        delivery.message = delivery.message._replace(partition=0, offset=0, timestamp=timestamp)
        await once(delivery, note)
    assert calls == [1, 2]


async def test_messages_pass_if_the_broker_numbers_them_anew_for_each_receiver() -> None:
    broker = ScriptedBroker()
    broker.capabilities = replace(broker.capabilities, replay=False)
    await broker.connect()
    got: list[bytes] = []

    @endpoint("work", middleware=[Deduplicate()])
    async def work(payload: Annotated[bytes, Payload]) -> None:
        got.append(payload)

    for payload in (b"one", b"two"):
        async with Client(broker, "memory://", [work]):
            broker.receiver.deliver(Message("work", payload, None, (), 0, 0, 1_000))
            await until(lambda: broker.receiver.offsets == [0])
    await broker.close()
    assert got == [b"one", b"two"]


async def test_of_a_batch_those_that_cannot_be_told_apart_all_pass() -> None:
    once, clock = Deduplicate(), Clock()
    sizes: list[int] = []

    async def note(delivery: Delivery) -> Outcome:
        sizes.append(delivery.size)
        return DONE

    for _ in range(2):
        await once(Batch([clock.delivery(), clock.delivery()]), note)
    assert sizes == [2, 2]


async def test_a_throttle_counts_the_messages_of_a_batch() -> None:
    clock = Clock()
    throttle = Throttle(rate=10, clock=clock)
    await throttle(Batch([clock.delivery(), clock.delivery(), clock.delivery()]), succeed)
    await throttle(clock.delivery(), succeed)
    assert clock.rests == [0.3]
