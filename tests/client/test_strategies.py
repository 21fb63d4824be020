"""What becomes of messages whose handler fails: later, skipped, stopped, or as the user says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from dragoman import (
    Client,
    Delivery,
    EndpointOptions,
    LaterOptions,
    Message,
    Metadata,
    Outcome,
    RetryOptions,
    controller,
    endpoint,
)
from dragoman.adapters.memory import MemoryBroker
from dragoman.client import headers as names
from dragoman.client.outcome import DONE, again
from dragoman.core.channel import Channel
from dragoman.core.errors import ClientError, ConfigurationError, StartupError
from dragoman.core.registry import Registry
from tests.client.conftest import payloads
from tests.client.loans import LoanRequest
from tests.client.waiting import until
from tests.services.kafka import Kafka

ONCE = RetryOptions(attempts=1)


def request(number: int) -> LoanRequest:
    return LoanRequest(number, 1.0, 12)


@pytest.fixture(params=["keeps aside", "retry channels"])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[MemoryBroker]:
    """With messages kept aside by the broker, or in channels of their own."""
    broker = MemoryBroker(f"memory://{id(request)}")
    if request.param == "retry channels":
        broker.capabilities = replace(broker.capabilities, delayed_delivery=False, delivery_count=False)
    await broker.connect()
    await broker.create(Channel("loans", 1))
    yield broker
    await broker.close()


def failing(times: int, options: EndpointOptions, got: list[int], bad: int = 0) -> Any:
    """An endpoint that fails so many times for one request."""
    left = [times]

    @endpoint("loans", group="g", options=options)
    async def on_request(request: LoanRequest) -> None:
        if request.request_id == bad and left[0]:
            left[0] -= 1
            raise ValueError("not yet")
        got.append(request.request_id)

    return on_request


async def test_a_message_is_tried_later_as_often_as_wanted(broker: MemoryBroker, registry: Registry) -> None:
    got: list[int] = []
    options = EndpointOptions(retry=ONCE, later=LaterOptions(delays=(0.05, 0.05)))
    async with Client(broker, registry, [failing(2, options, got)]) as client:
        await client.publish_many("loans", [request(n) for n in range(5)])
        await until(lambda: len(got) == 5)
        counters = client.metrics.of("loans")
        assert (counters.postponed, counters.dead) == (2, 0)
    assert sorted(got) == [0, 1, 2, 3, 4]


async def test_a_message_that_fails_later_too_is_a_letter_with_its_history(
    broker: MemoryBroker, registry: Registry
) -> None:
    got: list[int] = []
    options = EndpointOptions(retry=ONCE, later=LaterOptions(delays=(0.0, 0.05)))
    async with Client(broker, registry, [failing(99, options, got)]) as client:
        await client.publish("loans", request(0), key="k", headers={"mine": "kept"})
        await until(lambda: client.metrics.of("loans").dead)
    [letter] = payloads(broker, "loans.dead")
    assert letter.key == b"k"
    assert letter.header("mine") == b"kept"
    assert letter.header(names.ORIGINAL_CHANNEL) == b"loans"
    assert (letter.header(names.ORIGINAL_PARTITION), letter.header(names.ORIGINAL_OFFSET)) == (b"0", b"0")
    assert letter.header(names.DELIVERIES) == b"3"
    assert letter.header(names.NOT_BEFORE) is None
    assert int(letter.header(names.FIRST_FAILED_AT)) <= int(letter.header(names.FAILED_AT))


async def test_on_kafka_a_message_is_tried_later_as_what_it_was(kafka_server: Kafka) -> None:
    got: list[tuple[int, str, int | None]] = []
    channel = f"loans-{uuid4().hex}"
    options = EndpointOptions(retry=ONCE, later=LaterOptions(delays=(0.1, 0.1)))
    left = [2]

    @endpoint(channel, group=channel, options=options)
    async def on_request(request: LoanRequest, about: Metadata) -> None:
        if request.request_id == 0 and left[0]:
            left[0] -= 1
            raise ValueError
        got.append((request.request_id, about.channel, about.offset))

    async with Client(kafka_server.url, "memory://", [on_request]) as client:
        for number in range(3):
            await client.publish(channel, request(number), partition=0)
        await until(lambda: len(got) == 3)
        assert client.metrics.of(channel).postponed == 2
    assert sorted(got) == [(number, channel, number) for number in range(3)]


async def test_a_group_that_is_not_durable_has_no_retry_channels(
    memory: MemoryBroker, registry: Registry
) -> None:
    memory.capabilities = replace(memory.capabilities, delayed_delivery=False)
    options = EndpointOptions(later=LaterOptions(), durable=False)
    with pytest.raises(StartupError, match="not durable"):
        async with Client(memory, registry, [failing(1, options, [])]):
            pass


async def test_errors_that_no_time_can_cure_are_not_tried_later(
    broker: MemoryBroker, registry: Registry
) -> None:
    got: list[int] = []
    retry = RetryOptions(attempts=3, delay=0.0, never=(ValueError,))
    options = EndpointOptions(retry=retry, later=LaterOptions())
    async with Client(broker, registry, [failing(99, options, got)]) as client:
        await client.publish("loans", request(0))
        await until(lambda: client.metrics.of("loans").dead == 1)
        assert client.metrics.of("loans").failed == 1


async def test_what_waits_holds_up_nobody_and_stays_when_the_client_closes(
    broker: MemoryBroker, registry: Registry
) -> None:
    got: list[int] = []
    slow = EndpointOptions(retry=ONCE, later=LaterOptions(delays=(300.0,)))
    async with asyncio.timeout(60):
        async with Client(broker, registry, [failing(1, slow, got)]) as client:
            await client.publish_many("loans", [request(n) for n in range(5)])
            await until(lambda: client.metrics.of("loans").postponed and len(got) == 4)
    lags = [await broker.lag(name) for name in await broker.channels()]
    # A broker that keeps it aside counts from there on; a retry channel holds it alone.
    assert any(lag.behind for some in lags for lag in some)
    assert got == [1, 2, 3, 4]


async def test_only_some_errors_are_worth_a_repetition(memory: MemoryBroker, registry: Registry) -> None:
    calls: list[str] = []
    retry = RetryOptions(attempts=3, delay=0.0, only=(OSError,))

    @endpoint("loans", options=EndpointOptions(retry=retry))
    async def on_request(request: LoanRequest) -> None:
        calls.append(str(request.request_id))
        raise OSError if request.request_id else ValueError

    async with Client(memory, registry, [on_request]) as client:
        await client.publish("loans", request(0), partition=0)
        await client.publish("loans", request(1), partition=0)
        await until(lambda: client.metrics.of("loans").dead == 2)
    assert calls == ["0", "1", "1", "1"]


async def test_repetitions_end_when_their_time_is_over(memory: MemoryBroker, registry: Registry) -> None:
    got: list[int] = []
    options = EndpointOptions(retry=RetryOptions(attempts=1000, delay=0.01, factor=1.0, elapsed=0.05))

    @endpoint("loans", options=options)
    async def on_request(request: LoanRequest) -> None:
        got.append(request.request_id)
        raise ValueError

    async with Client(memory, registry, [on_request]) as client:
        await client.publish("loans", request(0))
        await until(lambda: client.metrics.of("loans").dead == 1)
    assert 1 <= len(got) < 1000


async def test_skipping_records_and_goes_on(
    memory: MemoryBroker, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[int] = []
    options = EndpointOptions(retry=ONCE, on_failure="skip")
    async with Client(memory, registry, [failing(99, options, got)]) as client:
        await client.publish("loans", request(0), partition=0)
        await client.publish("loans", request(1), partition=0)
        await until(lambda: got == [1])
        assert client.metrics.of("loans").skipped == 1
    assert payloads(memory, "loans.dead") == []
    [logged] = [each for each in caplog.records if "is skipped" in each.getMessage()]
    assert logged.__dict__["channel"] == "loans"
    assert logged.__dict__["error_code"] == "endpoint.failed"


async def test_stopping_ends_the_work_and_keeps_the_message(memory: MemoryBroker, registry: Registry) -> None:
    got: list[int] = []
    await memory.create(Channel("loans", 1))
    options = EndpointOptions(retry=ONCE, on_failure="stop")
    async with Client(memory, registry, [failing(99, options, got, bad=2)]) as client:
        await client.publish_many("loans", [request(n) for n in range(5)])
        async with asyncio.timeout(60):
            with pytest.raises(ClientError) as caught:
                await client.run()
        assert caught.value.code == "client.stopped"
        assert isinstance(caught.value.__cause__, ValueError)
    assert got == [0, 1]
    async with Client(memory, registry, [failing(0, options, got)]):
        await until(lambda: len(got) == 5)
    assert got == [0, 1, 2, 3, 4]


async def test_stopping_ends_the_retries_of_the_group_as_well(
    broker: MemoryBroker, registry: Registry
) -> None:
    got: list[int] = []
    options = EndpointOptions(retry=ONCE, later=LaterOptions(delays=(0.0,)), on_failure="stop")

    @endpoint("others", group="elsewhere")
    async def elsewhere(request: LoanRequest) -> None:
        got.append(request.request_id)

    async with Client(broker, registry, [failing(99, options, got), elsewhere]) as client:
        await client.publish("loans", request(0))
        async with asyncio.timeout(60):
            with pytest.raises(ClientError):
                await client.run()
        await until(lambda: not client.in_flight)
        await client.publish("loans", request(1))
        await client.publish("others", request(2))
        await until(lambda: got)
    assert got == [2]


async def test_a_strategy_of_ones_own_decides(memory: MemoryBroker, registry: Registry) -> None:
    got: list[int] = []
    seen: list[tuple[str, str]] = []

    async def strategy(delivery: Delivery, error: Exception) -> Outcome:
        seen.append((delivery.message.channel, str(error)))
        return DONE if len(seen) > 1 else again()

    options = EndpointOptions(retry=ONCE, on_failure=strategy)
    async with Client(memory, registry, [failing(2, options, got)]) as client:
        await client.publish("loans", request(0), partition=0)
        await client.publish("loans", request(1), partition=0)
        await until(lambda: got == [1])
    assert seen == [("loans", "not yet")] * 2


async def test_a_strategy_that_fails_itself_keeps_the_message(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[int] = []
    calls: list[int] = []

    async def strategy(delivery: Delivery, error: Exception) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("the strategy is broken")

    options = EndpointOptions(retry=ONCE, on_failure=strategy)
    async with Client(memory, registry, [failing(2, options, got)]) as client:
        await client.publish("loans", request(0))
        await until(lambda: got == [0])
    assert len(calls) == 2


async def test_strategies_are_inherited(memory: MemoryBroker, registry: Registry) -> None:
    skip = EndpointOptions(retry=ONCE, on_failure="skip")

    @controller(group="c", options=skip)
    class Both:
        @endpoint("loans")
        async def inherits(self, request: LoanRequest) -> None:
            raise ValueError

        @endpoint("others", options=EndpointOptions(retry=ONCE))
        async def chooses(self, request: LoanRequest) -> None:
            raise ValueError

    async with Client(memory, registry, [Both]) as client:
        await client.publish("loans", request(0))
        await client.publish("others", request(0))
        await until(lambda: client.metrics.of("loans").skipped and client.metrics.of("others").dead)


async def test_only_messages_that_meet_the_condition_are_handled(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[int] = []

    @endpoint(
        "loans",
        options=EndpointOptions(consumed_if='header.region == "eu" and payload.amount >= 1000'),
    )
    async def on_request(request: LoanRequest) -> None:
        got.append(request.request_id)

    async with Client(memory, registry, [on_request]) as client:
        # What is not selected by its headers is not even read: this one would be invalid.
        schema = (await client.producer("loans", LoanRequest)).schema_id.to_bytes(4, "big")
        unread = Message("loans", b"\0" + schema + b"rubbish", headers=(("region", b"us"),))
        await memory.publish([unread])
        for number, (region, amount) in enumerate([("eu", 999.0), ("eu", 1000.0), ("us", 5000.0)]):
            await client.publish(
                "loans", LoanRequest(number, amount, 1), headers={"region": region}, partition=0
            )
        await until(lambda: client.metrics.of("loans").unselected == 3 and got)
        assert client.metrics.of("loans").invalid == 0
    assert got == [1]


async def test_a_condition_that_cannot_be_read_fails_start_up(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("loans", options=EndpointOptions(consumed_if="__import__('os').system('true')"))
    async def on_request(request: LoanRequest) -> None: ...

    with pytest.raises(StartupError, match="cannot be used"):
        async with Client(memory, registry, [on_request]):
            pass


def test_strategies_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ConfigurationError):
        EndpointOptions(on_failure="explode")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError):
        LaterOptions(delays=())
