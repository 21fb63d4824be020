"""Requests and replies: by return value, before the acknowledgement, to the one who asked."""

from __future__ import annotations

import asyncio

import pytest

from dragoman import Client, EndpointOptions, Message, RetryOptions, controller, endpoint, record
from dragoman.adapters.memory import MemoryBroker
from dragoman.client import headers
from dragoman.client.contracts import Contracts
from dragoman.client.options import ClientOptions
from dragoman.core.channel import Channel
from dragoman.core.errors import ClientError, ConstraintViolated, DecodeError, ReplyTimeout
from dragoman.core.registry import Registry
from tests.client.conftest import payloads
from tests.client.loans import LoanReply, LoanRequest, QuoteElsewhere
from tests.client.waiting import until


@controller(group="loan-broker")
class LoanBroker:
    @endpoint("loan.requests", reply_to="loan.replies")
    async def on_request(self, request: LoanRequest) -> LoanReply:
        return LoanReply(request.request_id, 3.4)


async def test_a_request_gets_the_return_value(memory: MemoryBroker, registry: Registry) -> None:
    async with Client(memory, registry, [LoanBroker]) as client:
        reply = await client.request("loan.requests", LoanRequest(7, 10_000.0, 24), reply=LoanReply)
    assert reply == LoanReply(7, 3.4)


async def test_many_requests_in_flight_each_get_their_own_reply(
    memory: MemoryBroker, registry: Registry
) -> None:
    async with (
        Client(memory, registry, [LoanBroker]),
        Client(memory, registry) as one,
        Client(memory, registry) as two,
    ):
        asked = [
            client.request("loan.requests", LoanRequest(number, 1.0, 1), reply=LoanReply)
            for number in range(500)
            for client in (one, two)
        ]
        replies = await asyncio.gather(*asked)
        counts = [client.metrics.replies.received for client in (one, two)]
    assert [reply.request_id for reply in replies] == [n for n in range(500) for _ in range(2)]
    assert counts == [500, 500], "each requester receives its own replies alone"


async def test_the_channel_of_replies_is_gone_after_the_client(
    memory: MemoryBroker, registry: Registry
) -> None:
    async with Client(memory, registry, [LoanBroker]) as client:
        await client.request("loan.requests", LoanRequest(7, 1.0, 1), reply=LoanReply)
        assert any("replies." in name for name in await memory.channels())
    assert not any("replies." in name for name in await memory.channels())


async def test_without_a_return_address_the_reply_goes_to_the_declared_channel(
    memory: MemoryBroker, registry: Registry
) -> None:
    async with Client(memory, registry, [LoanBroker]) as client:
        await client.publish("loan.requests", LoanRequest(7, 1.0, 1), headers={headers.CORRELATION_ID: "c-1"})
        await until(lambda: payloads(memory, "loan.replies"))
    [reply] = payloads(memory, "loan.replies")
    assert reply.header(headers.CORRELATION_ID) == b"c-1"
    assert "loan.replies-value" in await registry.contracts()


async def test_a_function_without_a_declared_channel_answers_the_return_address(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("loan.requests")
    def on_request(request: LoanRequest) -> LoanReply | None:
        return LoanReply(request.request_id, 1.0)

    async with Client(memory, registry, [on_request]) as client:
        await client.publish("loan.requests", LoanRequest(1, 1.0, 1))
        reply = await client.request("loan.requests", LoanRequest(2, 1.0, 1), reply=LoanReply)
        assert reply == LoanReply(2, 1.0)
        assert client.metrics.of("loan.requests").replied == 1
    assert "loan.requests.reply-value" in await registry.contracts()


async def test_nobody_who_answers_is_a_timeout(memory: MemoryBroker, registry: Registry) -> None:
    async with Client(memory, registry) as client:
        with pytest.raises(ReplyTimeout, match="Nobody answered"):
            await client.request("loan.requests", LoanRequest(1, 1.0, 1), reply=LoanReply, timeout=0.01)


async def test_late_and_second_replies_trouble_nobody(memory: MemoryBroker, registry: Registry) -> None:
    async with Client(memory, registry, [LoanBroker]) as client:
        await client.request("loan.requests", LoanRequest(1, 1.0, 1), reply=LoanReply)
        [address] = [name for name in await memory.channels() if "replies." in name]
        bound = await Contracts(registry, ClientOptions()).bind("loan.replies", LoanReply)
        for correlation in (b"nobody", b""):
            late = Message(
                address, bound.encode(LoanReply(9, 9.0)), headers=((headers.CORRELATION_ID, correlation),)
            )
            await memory.publish([late])
        await until(lambda: client.metrics.replies.received == 3)
        reply = await client.request("loan.requests", LoanRequest(2, 1.0, 1), reply=LoanReply)
    assert reply == LoanReply(2, 3.4)


async def test_a_reply_of_another_shape_cannot_be_read(memory: MemoryBroker, registry: Registry) -> None:
    async with Client(memory, registry, [LoanBroker]) as client:
        with pytest.raises(DecodeError, match="cannot be read as QuoteElsewhere"):
            await client.request("loan.requests", LoanRequest(1, 1.0, 1), reply=QuoteElsewhere)


async def test_a_reply_that_cannot_be_written_makes_the_request_a_dead_letter(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint(
        "loan.requests", reply_to="loan.replies", options=EndpointOptions(retry=RetryOptions(attempts=5))
    )
    async def on_request(request: LoanRequest) -> LoanReply:
        calls.append(1)
        return LoanReply("not a number", 1.0)  # type: ignore[arg-type]

    calls: list[int] = []
    async with Client(memory, registry, [on_request]) as client:
        await client.publish("loan.requests", LoanRequest(1, 1.0, 1))
        await until(lambda: client.metrics.of("loan.requests").dead)
        assert client.metrics.of("loan.requests").invalid == 0
    assert calls == [1]
    assert payloads(memory, "loan.replies") == []


async def test_a_requester_who_has_left_does_not_make_its_request_fail(
    memory: MemoryBroker, registry: Registry
) -> None:
    async with Client(memory, registry, [LoanBroker]) as client:
        gone = {headers.REPLY_TO: "client.replies.gone", headers.CORRELATION_ID: "1"}
        await client.publish("loan.requests", LoanRequest(1, 1.0, 1), headers=gone)
        await until(lambda: client.metrics.of("loan.requests").handled)
        counters = client.metrics.of("loan.requests")
        assert (counters.failed, counters.dead, counters.replied) == (0, 0, 0)


async def test_closing_the_client_ends_requests_that_still_wait(
    memory: MemoryBroker, registry: Registry
) -> None:
    async with Client(memory, registry) as client:
        asking = asyncio.create_task(
            client.request("loan.requests", LoanRequest(1, 1.0, 1), reply=LoanReply, timeout=3600)
        )
        await until(lambda: client.metrics.of("loan.requests").published)
    with pytest.raises(ClientError, match="closed before the reply"):
        await asking


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ValueError("a secret of the handler"), "endpoint.failed", "The endpoint failed."),
        (ConstraintViolated("The amount is too high."), "message.constraint", "The amount is too high."),
    ],
)
async def test_a_request_that_fails_for_good_is_answered_with_its_failure(
    memory: MemoryBroker, registry: Registry, error: Exception, code: str, text: str
) -> None:
    @endpoint("loan.requests", options=EndpointOptions(retry=RetryOptions(attempts=1)))
    async def on_request(request: LoanRequest) -> LoanReply:
        raise error

    async with Client(memory, registry, [on_request]) as client:
        with pytest.raises(ClientError) as caught:
            await client.request("loan.requests", LoanRequest(1, 1.0, 1), reply=LoanReply)
        assert caught.value.code == "client.request-failed"
        assert caught.value.where["error_code"] == code
        assert text in str(caught.value)
        assert "secret" not in str(caught.value)
        assert len(payloads(memory, "loan.requests.dead")) == 1


@pytest.mark.parametrize("elsewhere", [None, "answers"])
@pytest.mark.parametrize("correlation", [None, "$message.header#/number", "$message.payload#/request_id"])
async def test_who_names_the_reply_channel_gets_replies_and_declared_errors(
    registry: Registry, elsewhere: str | None, correlation: str | None
) -> None:
    @record
    class No(Exception):
        why: str

    @endpoint("requests", reply_to=elsewhere, correlation=correlation, raises=[No])
    async def quote(request: LoanRequest) -> LoanReply:
        if request.request_id == 2:
            raise No("never")
        return LoanReply(request.request_id, 3.4)

    async with Client("memory://", registry, [quote]) as client:
        await client.broker.create(Channel("answers"))

        async def ask(number: int) -> LoanReply:
            return await client.request(
                "requests",
                LoanRequest(number, 1.0, 1),
                reply=LoanReply,
                reply_to="answers",
                correlation=correlation,
                raises=[No],
                timeout=60,
            )

        assert await ask(1) == LoanReply(1, 3.4)
        with pytest.raises(No) as caught:
            await ask(2)
        assert caught.value.why == "never"
