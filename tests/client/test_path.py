"""The compiled paths of all shapes of endpoints treat messages alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from dragoman import (
    Client,
    ClientOptions,
    Delivery,
    EndpointOptions,
    Handler,
    Message,
    Outcome,
    RetryOptions,
    endpoint,
    record,
)
from dragoman.client import headers
from dragoman.client.contracts import Contracts
from dragoman.client.dead_letters import DeadLetters
from dragoman.client.history import history
from tests.client.waiting import until

TWICE = EndpointOptions(retry=RetryOptions(attempts=2, delay=0.0))


@record
class Order:
    number: int


async def observed(delivery: Delivery, next: Handler) -> Outcome:
    """A middleware of the user's, which wants a delivery."""
    return await next(delivery)


@pytest.fixture(params=["directly", "by value", "by delivery", "traced"])
async def run(request: pytest.FixtureRequest) -> Any:
    """Start a client whose endpoint calls a handler, and publish three orders."""
    own = [observed] if request.param == "by delivery" else []
    more = ClientOptions(tracing=request.param == "traced")

    async def start(
        handle: Callable[[Order], Awaitable[None]], options: EndpointOptions = TWICE, **publishing: Any
    ) -> Client:
        @endpoint("orders", group="g", options=options, middleware=own)
        async def on_order(order: Order) -> None:
            await handle(order)

        if request.param == "by value":
            # Whoever has a header is looked at.
            publishing = {"headers": {"from": "afar"}} | publishing
        client = Client("memory://", "memory://", [on_order], options=more)
        await clients.enter_async_context(client)
        for number in range(3):
            await client.publish("orders", Order(number), **publishing)
        return client

    async with AsyncExitStack() as clients:
        yield start


async def test_values_are_handled_and_counted(run: Any) -> None:
    seen = []

    async def handle(order: Order) -> None:
        seen.append(order)

    client = await run(handle)
    await until(lambda: client.metrics.of("orders").handled == 3)
    assert seen == [Order(0), Order(1), Order(2)]
    assert client.metrics.latency_of("orders").count == 3


async def test_a_handler_that_fails_is_called_again_with_a_fresh_value(run: Any) -> None:
    seen = []

    async def handle(order: Order) -> None:
        seen.append(order.number)
        order.number = -1
        if len(seen) == 2:
            raise RuntimeError("once")

    client = await run(handle)
    await until(lambda: client.metrics.of("orders").handled == 3)
    assert seen == [0, 1, 1, 2]
    assert client.metrics.of("orders").retried == 1


async def test_one_that_fails_for_good_becomes_a_dead_letter(run: Any) -> None:
    async def handle(order: Order) -> None:
        if order.number == 1:
            raise RuntimeError("never")

    client = await run(handle)
    await until(lambda: client.metrics.of("orders").dead == 1)
    (letter,) = await DeadLetters(client.broker, "orders.dead").find()
    assert letter.cause(headers.ATTEMPTS) == "2"
    assert letter.cause(headers.ENDPOINT).endswith("on_order")


async def test_one_that_cannot_be_read_goes_aside_and_the_handler_never_sees_it(run: Any) -> None:
    seen = []

    async def handle(order: Order) -> None:
        seen.append(order.number)

    client = await run(handle)
    await until(lambda: len(seen) == 3)
    (good, *_) = [each async for each in history(client.broker, "orders")]
    await client.broker.publish([Message("orders", (good.payload or b"") + b"rest")])
    await until(lambda: client.metrics.of("orders").invalid == 1)
    assert seen == [0, 1, 2]


async def test_a_condition_is_obeyed_by_header_and_by_payload(run: Any) -> None:
    seen = []

    async def handle(order: Order) -> None:
        seen.append(order.number)

    options = EndpointOptions(consumed_if='header.region == "eu" and payload.number > 0')
    client = await run(handle, options, headers={"region": "eu"})
    await client.publish("orders", Order(7), headers={"region": "us"})
    await until(lambda: client.metrics.of("orders").unselected == 2)
    await until(lambda: client.metrics.of("orders").handled == 2)
    assert seen == [1, 2]


async def test_an_expired_message_is_not_handled(run: Any) -> None:
    seen = []

    async def handle(order: Order) -> None:
        seen.append(order.number)

    client = await run(handle, expires_in=-1.0)
    await until(lambda: client.metrics.of("orders").expired == 3)
    assert seen == []


async def test_a_cancellation_inside_a_handler_is_a_failure_like_others(run: Any) -> None:
    seen = []

    async def handle(order: Order) -> None:
        seen.append(order.number)
        if len(seen) == 1:
            raise asyncio.CancelledError

    client = await run(handle)
    await until(lambda: client.metrics.of("orders").handled == 3)
    assert seen == [0, 0, 1, 2]


class Panic(BaseException):
    """As extension modules raise it."""


@pytest.mark.parametrize("error", [Panic, ZeroDivisionError, GeneratorExit, asyncio.CancelledError])
async def test_a_message_whose_codec_fails_goes_aside_whatever_it_raises(
    run: Any, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    seen = []
    make = Contracts.frame_decoder

    async def faulty(self: Contracts, *about: Any) -> Callable[[Any], Any]:
        decode = await make(self, *about)

        def decode_or_fail(frame: Any) -> Any:
            value = decode(frame)
            if value.number == 1:
                raise error
            return value

        return decode_or_fail

    monkeypatch.setattr(Contracts, "frame_decoder", faulty)

    async def handle(order: Order) -> None:
        seen.append(order.number)

    client = await run(handle)
    await until(lambda: client.metrics.of("orders").invalid == 1 and len(seen) == 2)
    assert seen == [0, 2]
    (letter,) = await DeadLetters(client.broker, "orders.invalid").find()
    assert letter.cause(headers.ERROR_CODE) == "message.codec"
