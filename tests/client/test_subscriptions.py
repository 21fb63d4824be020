"""Endpoint subscriptions: who shares, what is remembered, where a group starts, polling, batches."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Any

import pytest

from dragoman import Client, ClientOptions, EndpointOptions, Key, Message, Metadata, RetryOptions, endpoint
from dragoman.adapters.memory import MemoryBroker
from dragoman.core.broker import Sharing
from dragoman.core.channel import Channel
from dragoman.core.database import Transaction
from dragoman.core.errors import GroupTaken, StartupError
from dragoman.core.registry import Registry
from tests.client.conftest import payloads
from tests.client.loans import LoanReply, LoanRequest
from tests.client.waiting import until

ONCE = EndpointOptions(retry=RetryOptions(attempts=1))


def request(number: int) -> LoanRequest:
    return LoanRequest(number, 1.0, 12)


async def test_an_exclusive_endpoint_keeps_others_out(memory: MemoryBroker, registry: Registry) -> None:
    @endpoint("loans", group="one", sharing=Sharing.EXCLUSIVE)
    async def only(request: LoanRequest) -> None: ...

    async with Client(memory, registry, [only]):
        with pytest.raises(GroupTaken):
            async with Client(memory, registry, [only]):
                pytest.fail("It has begun.")
    async with Client(memory, registry, [only]):
        pass


async def test_of_failover_endpoints_the_next_takes_over(memory: MemoryBroker, registry: Registry) -> None:
    got: list[tuple[str, int]] = []

    def member(name: str) -> Any:
        @endpoint("loans", group="pair", sharing=Sharing.FAILOVER)
        async def on_request(request: LoanRequest) -> None:
            got.append((name, request.request_id))

        return on_request

    async with Client(memory, registry, [member("second")]) as second:
        await second.publish("loans", request(0))
        await until(lambda: got)
        async with Client(memory, registry, [member("third")]):
            await second.publish_many("loans", [request(n) for n in range(1, 9)], key=lambda r: r.request_id)
            await until(lambda: len(got) == 9)
            assert {name for name, _ in got} == {"second"}
            await second.__aexit__(None, None, None)
            async with Client(memory, registry) as sender:
                await sender.publish("loans", request(9))
            await until(lambda: got[-1] == ("third", 9))


async def test_each_client_gets_everything_of_an_endpoint_that_is_not_durable(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: dict[str, list[int]] = {"a": [], "b": []}

    def listener(name: str) -> Any:
        @endpoint("loans", durable=False, start="latest")
        async def on_request(request: LoanRequest) -> None:
            got[name].append(request.request_id)

        return on_request

    async with Client(memory, registry, [listener("a")]), Client(memory, registry, [listener("b")]) as b:
        await b.publish("loans", request(1))
        await until(lambda: got == {"a": [1], "b": [1]})
    assert await memory.lag("loans") == []


async def test_a_group_starts_at_the_offset_it_names(memory: MemoryBroker, registry: Registry) -> None:
    got: list[int] = []

    @endpoint("loans", start={0: 7})
    async def on_request(request: LoanRequest) -> None:
        got.append(request.request_id)

    await memory.create(Channel("loans", 1))
    async with Client(memory, registry) as client:
        await client.publish_many("loans", [request(n) for n in range(10)])
    async with Client(memory, registry, [on_request]):
        await until(lambda: len(got) == 3)
    assert got == [7, 8, 9]


async def test_what_the_broker_cannot_do_fails_start_up(memory: MemoryBroker, registry: Registry) -> None:
    @endpoint("loans", sharing=Sharing.KEY_SHARED, durable=False, group="g")
    async def on_request(request: LoanRequest) -> None: ...

    memory.capabilities = replace(memory.capabilities, sharing=frozenset({Sharing.SHARED}))
    with pytest.raises(StartupError, match="has no sharing key-shared"):
        async with Client(memory, registry, [on_request]):
            pass


async def test_one_group_is_durable_or_not(memory: MemoryBroker, registry: Registry) -> None:
    @endpoint("loans", group="g")
    async def one(request: LoanRequest) -> None: ...

    @endpoint("replies", group="g", durable=False)
    async def other(reply: LoanReply) -> None: ...

    with pytest.raises(StartupError, match="differ in 'durable'"):
        async with Client(memory, registry, [one, other]):
            pass


async def test_polling_acknowledges_when_the_next_is_asked_for(
    memory: MemoryBroker, registry: Registry
) -> None:
    async def behind() -> int:
        return sum(lag.behind for lag in await memory.lag("loans", "reports"))

    await memory.create(Channel("loans", 1))
    async with Client(memory, registry) as client:
        await client.publish_many("loans", [request(n) for n in range(3)])
        async with client.poll("loans", LoanRequest, group="reports") as requests:
            assert (await anext(requests)).request_id == 0
            assert requests.about.offset == requests.message.offset == 0
            assert await behind() == 3
            assert (await anext(requests)).request_id == 1
            await until(lambda: _is(behind, 2))
        assert await behind() == 1


async def _is(what: Any, wanted: int) -> bool:
    return bool(await what() == wanted)


async def test_a_message_that_was_polled_in_vain_comes_again(
    memory: MemoryBroker, registry: Registry
) -> None:
    async with Client(memory, registry) as client:
        await client.publish("loans", request(1))
        with pytest.raises(LookupError):
            async with client.poll("loans", LoanRequest, group="reports") as requests:
                async for _ in requests:
                    raise LookupError
        async with client.poll("loans", LoanRequest, group="reports", limit=1) as requests:
            assert [each.request_id async for each in requests] == [1]
        async with client.poll("loans", LoanRequest, group="reports", wait=0.0) as requests:
            assert [each async for each in requests] == []


async def test_what_cannot_be_read_is_not_polled(memory: MemoryBroker, registry: Registry) -> None:
    await memory.create(Channel("loans", 1))
    async with Client(memory, registry) as client:
        await memory.publish([Message("loans", b"rubbish")])
        await client.publish("loans", request(1))
        async with client.poll("loans", LoanRequest, limit=1) as requests:
            assert [each.request_id async for each in requests] == [1]
    assert [each.payload for each in payloads(memory, "loans.invalid")] == [b"rubbish"]


async def test_a_batch_is_handled_as_one_in_order(memory: MemoryBroker, registry: Registry) -> None:
    batches: list[list[int]] = []
    places: list[tuple[str, int | None]] = []

    @endpoint("loans", options=EndpointOptions(batch_size=4, batch_wait=60.0))
    async def on_requests(
        requests: list[LoanRequest], keys: Annotated[list[str], Key], about: list[Metadata]
    ) -> None:
        batches.append([each.request_id for each in requests])
        places.extend((key, each.offset) for key, each in zip(keys, about, strict=True))

    await memory.create(Channel("loans", 1))
    async with Client(memory, registry, [on_requests]) as client:
        for number in range(8):
            await client.publish("loans", request(number), key=f"k{number}")
        await until(lambda: client.metrics.of("loans").handled == 8)
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert places == [(f"k{n}", n) for n in range(8)]
    assert sum(lag.behind for lag in await memory.lag("loans")) == 0


async def test_a_batch_that_is_not_full_goes_after_a_while(memory: MemoryBroker, registry: Registry) -> None:
    got: list[int] = []

    @endpoint("loans", options=EndpointOptions(batch_size=1000, batch_wait=0.01))
    def on_requests(requests: list[LoanRequest]) -> None:
        got.extend(each.request_id for each in requests)

    async with Client(memory, registry, [on_requests]) as client:
        await client.publish("loans", request(1))
        await until(lambda: got == [1])


async def test_of_a_batch_that_fails_only_the_bad_message_is_a_dead_letter(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[int] = []

    @endpoint("loans", options=replace(ONCE, batch_size=10, batch_wait=60.0))
    async def on_requests(requests: list[LoanRequest]) -> None:
        if any(each.request_id == 3 for each in requests):
            raise ValueError
        got.extend(each.request_id for each in requests)

    await memory.create(Channel("loans", 1))
    async with Client(memory, registry, [on_requests]) as client:
        await memory.publish([Message("loans", b"rubbish")])
        await client.publish_many("loans", [request(n) for n in range(9)])
        await until(lambda: len(got) == 8)
        await until(lambda: client.metrics.of("loans").dead == 1)
    assert got == [0, 1, 2, 4, 5, 6, 7, 8]
    [letter] = payloads(memory, "loans.dead")
    assert letter.header("dragoman-original-offset") == b"4"
    assert len(payloads(memory, "loans.invalid")) == 1


@pytest.mark.parametrize("full", [0, 1, 3], ids=lambda full: f"after {full} full batches")
async def test_closing_does_not_wait_for_a_batch_to_fill(
    memory: MemoryBroker, registry: Registry, caplog: pytest.LogCaptureFixture, full: int
) -> None:
    got: list[int] = []
    whole = list(range(10 * full))

    @endpoint("loans", options=EndpointOptions(batch_size=10, batch_wait=600.0))
    async def on_requests(requests: list[LoanRequest]) -> None:
        got.extend(each.request_id for each in requests)

    options = ClientOptions(drain_timeout=300.0)
    async with asyncio.timeout(60):
        async with Client(memory, registry, [on_requests], options=options) as client:
            await client.publish_many("loans", [request(each) for each in (*whole, -1)], partition=0)
            await until(lambda: got == whole and client.in_flight == 1)
    assert got == whole
    assert sum(lag.behind for lag in await memory.lag("loans")) == 1
    assert [each for each in caplog.records if each.levelname == "WARNING"] == []


async def test_an_endpoint_for_batches_takes_nothing_but_lists(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("loans")
    async def mixed(requests: list[LoanRequest], about: Metadata) -> None: ...

    @endpoint("loans", group="other")
    async def replying(requests: list[LoanRequest]) -> LoanReply:
        return LoanReply(len(requests), 1.0)

    @endpoint("loans", group="third")
    def transacting(requests: list[LoanRequest], tx: Transaction) -> None: ...

    with pytest.raises(StartupError) as caught:
        async with Client(memory, registry, [mixed, replying, transacting], database="sqlite://:memory:"):
            pass
    assert "only one of about" in str(caught.value)
    assert "whether it was handled before" in str(caught.value)
    assert "it cannot reply" in str(caught.value)
