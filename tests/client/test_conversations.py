"""Conversations: streams of replies, errors that cross the wire, correlation by a place in the message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from dragoman import Client, EndpointOptions, Message, RetryOptions, endpoint, record
from dragoman.adapters.memory import MemoryBroker
from dragoman.client import addresses, headers
from dragoman.client.correlation import read_correlation
from dragoman.core.channel import Channel
from dragoman.core.errors import ClientError, ConfigurationError, EncodeError, ReplyTimeout, StartupError
from dragoman.core.registry import Registry
from tests.client.conftest import payloads
from tests.client.loans import LoanReply, LoanRequest
from tests.client.waiting import until

ONCE = EndpointOptions(retry=RetryOptions(attempts=1))
BY_NUMBER = "$message.payload#/request_id"


@record(namespace="com.mycorp")
class TooMuch(Exception):
    limit: float
    reason: str = ""


@endpoint("loan.requests", raises=[TooMuch], options=ONCE)
async def cautious(request: LoanRequest) -> LoanReply:
    if request.amount > 100:
        raise TooMuch(100.0, "Nobody gets more.")
    return LoanReply(request.request_id, 1.0)


@endpoint("loan.requests", options=ONCE)
async def many(request: LoanRequest) -> AsyncIterator[LoanReply]:
    for month in range(request.term_in_months):
        yield LoanReply(request.request_id, float(month))
    if request.amount < 0:
        raise ValueError("a secret of the handler")


async def test_a_declared_error_is_raised_again_where_it_was_asked_for(
    memory: MemoryBroker, registry: Registry
) -> None:
    async with Client(memory, registry, [cautious]) as client:
        with pytest.raises(TooMuch) as caught:
            await client.request("loan.requests", LoanRequest(1, 900.0, 1), reply=LoanReply, raises=[TooMuch])
        assert (caught.value.limit, caught.value.reason) == (100.0, "Nobody gets more.")
        counters = client.metrics.of("loan.requests")
        assert (counters.handled, counters.failed, counters.dead) == (1, 0, 0), "it is an answer, no failure"
    assert "loan.requests.reply.TooMuch-value" in await registry.contracts()


async def test_a_declared_error_that_the_requester_does_not_know_is_named(
    memory: MemoryBroker, registry: Registry
) -> None:
    async with Client(memory, registry, [cautious]) as client:
        with pytest.raises(ClientError) as caught:
            await client.request("loan.requests", LoanRequest(1, 900.0, 1), reply=LoanReply)
    assert caught.value.code == "client.raised"
    assert "com.mycorp.TooMuch" in str(caught.value)


async def test_a_declared_error_without_anyone_to_tell_is_a_failure(
    memory: MemoryBroker, registry: Registry
) -> None:
    async with Client(memory, registry, [cautious]) as client:
        await client.publish("loan.requests", LoanRequest(1, 900.0, 1))
        await until(lambda: client.metrics.of("loan.requests").dead)


async def test_an_unknown_error_is_masked_and_found_again_by_its_reference(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("loan.requests", options=ONCE)
    async def failing(request: LoanRequest) -> LoanReply:
        raise ValueError("a secret of the handler")

    async with Client(memory, registry, [failing]) as client:
        with pytest.raises(ClientError) as caught:
            await client.request("loan.requests", LoanRequest(1, 1.0, 1), reply=LoanReply)
    [letter] = payloads(memory, "loan.requests.dead")
    assert "secret" not in str(caught.value)
    assert str(caught.value.where["reference"]).encode() == letter.header(headers.ERROR_REFERENCE)


async def test_an_error_that_is_no_record_keeps_the_client_from_starting(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("loan.requests", raises=[ValueError])
    async def wrong(request: LoanRequest) -> LoanReply:
        return LoanReply(1, 1.0)

    with pytest.raises(StartupError, match="ValueError cannot be sent"):
        async with Client(memory, registry, [wrong]):
            pass


async def test_a_stream_gives_all_replies_in_order(memory: MemoryBroker, registry: Registry) -> None:
    async with Client(memory, registry, [many]) as client:
        asked = client.request_stream("loan.requests", LoanRequest(1, 1.0, 50), reply=LoanReply)
        rates = [reply.interest_rate async for reply in asked]
        none = client.request_stream("loan.requests", LoanRequest(1, 1.0, 0), reply=LoanReply)
        assert [reply async for reply in none] == []
    assert rates == [float(month) for month in range(50)]


async def test_a_stream_that_fails_gives_what_came_before_and_then_the_error(
    memory: MemoryBroker, registry: Registry
) -> None:
    rates = []
    async with Client(memory, registry, [many]) as client:
        with pytest.raises(ClientError, match="The endpoint failed"):
            async for reply in client.request_stream(
                "loan.requests", LoanRequest(1, -1.0, 3), reply=LoanReply
            ):
                rates.append(reply.interest_rate)
    assert rates == [0.0, 1.0, 2.0]


async def test_a_stream_that_is_sent_again_after_a_failure_has_no_reply_twice(
    memory: MemoryBroker, registry: Registry
) -> None:
    calls: list[int] = []

    @endpoint("loan.requests", options=EndpointOptions(retry=RetryOptions(attempts=2, delay=0.0)))
    async def shaky(request: LoanRequest) -> AsyncIterator[LoanReply]:
        calls.append(1)
        for number in range(4):
            if number == 2 and len(calls) == 1:
                raise OSError("The line broke.")
            yield LoanReply(request.request_id, float(number))

    async with Client(memory, registry, [shaky]) as client:
        asked = client.request_stream("loan.requests", LoanRequest(1, 1.0, 1), reply=LoanReply)
        rates = [reply.interest_rate async for reply in asked]
        assert client.metrics.replies.repeated == 2
    assert rates == [0.0, 1.0, 2.0, 3.0]


async def test_a_stream_may_be_left_early(memory: MemoryBroker, registry: Registry) -> None:
    left = asyncio.Event()

    @endpoint("loan.requests")
    async def slow(request: LoanRequest) -> AsyncIterator[LoanReply]:
        yield LoanReply(request.request_id, 0.0)
        await left.wait()
        yield LoanReply(request.request_id, 1.0)

    async with Client(memory, registry, [slow]) as client:
        asked = client.request_stream("loan.requests", LoanRequest(1, 1.0, 20), reply=LoanReply)
        async for _reply in asked:
            break
        await asked.aclose()
        left.set()
        await until(lambda: client.metrics.replies.late == 2)
        assert client.metrics.of("loan.requests").handled == 1


async def test_a_single_return_value_is_a_stream_of_one(memory: MemoryBroker, registry: Registry) -> None:
    async with Client(memory, registry, [cautious]) as client:
        asked = client.request_stream("loan.requests", LoanRequest(1, 1.0, 1), reply=LoanReply)
        assert [reply async for reply in asked] == [LoanReply(1, 1.0)]
        refused = client.request_stream(
            "loan.requests", LoanRequest(1, 900.0, 1), reply=LoanReply, raises=[TooMuch]
        )
        with pytest.raises(TooMuch):
            [reply async for reply in refused]


async def test_replies_are_correlated_by_a_place_in_both_payloads(
    memory: MemoryBroker, registry: Registry
) -> None:
    """A channel of replies that all requesters share; each takes what answers its own requests."""

    @endpoint("loan.requests", reply_to="loan.replies", correlation=BY_NUMBER)
    async def on_request(request: LoanRequest) -> LoanReply:
        return LoanReply(request.request_id, 2.0)

    async with (
        Client(memory, registry, [on_request]),
        Client(memory, registry) as one,
        Client(memory, registry) as two,
    ):
        replies = await asyncio.gather(
            *(
                client.request(
                    "loan.requests",
                    LoanRequest(number * 2 + offset, 1.0, 1),
                    reply=LoanReply,
                    reply_to="loan.replies",
                    correlation=BY_NUMBER,
                )
                for number in range(50)
                for offset, client in enumerate((one, two))
            )
        )
    assert [reply.request_id for reply in replies] == list(range(100))
    assert payloads(memory, "loan.replies")[0].header(headers.CORRELATION_ID) is not None


async def test_replies_are_correlated_by_a_header_of_ones_own(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("loan.requests", reply_to="loan.replies", correlation="$message.header#/order")
    async def on_request(request: LoanRequest) -> LoanReply:
        return LoanReply(request.request_id, 2.0)

    async with Client(memory, registry, [on_request]) as client:
        reply = await client.request(
            "loan.requests",
            LoanRequest(5, 1.0, 1),
            reply=LoanReply,
            reply_to="loan.replies",
            correlation="$message.header#/order",
            headers={"order": "o-5"},
        )
    assert reply.request_id == 5
    [sent] = payloads(memory, "loan.replies")
    assert sent.header("order") == b"o-5"


async def test_a_correlation_that_is_under_way_is_not_used_twice(
    memory: MemoryBroker, registry: Registry
) -> None:
    async with Client(memory, registry) as client:
        await memory.create(Channel("loan.replies"))

        async def ask() -> LoanReply:
            return await client.request(
                "loan.requests",
                LoanRequest(5, 1.0, 1),
                reply=LoanReply,
                timeout=3600,
                reply_to="loan.replies",
                correlation=BY_NUMBER,
            )

        first = asyncio.create_task(ask())
        await until(lambda: client.metrics.of("loan.requests").published)
        with pytest.raises(ClientError, match="under way already"):
            await ask()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


@pytest.mark.parametrize("place", [BY_NUMBER, "$message.header#/order"])
async def test_a_correlation_without_a_channel_for_the_reply_is_refused(
    memory: MemoryBroker, registry: Registry, place: str
) -> None:
    async with Client(memory, registry) as client:
        with pytest.raises(ClientError, match="needs to know where the reply comes"):
            await client.request("loan.requests", LoanRequest(5, 1.0, 1), reply=LoanReply, correlation=place)
    assert payloads(memory, "loan.requests") == []


async def test_a_reply_that_does_not_carry_its_correlation_is_refused(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("loan.requests", reply_to="loan.replies", correlation=BY_NUMBER, options=ONCE)
    async def on_request(request: LoanRequest) -> LoanReply:
        return LoanReply(-1, 2.0)

    async with Client(memory, registry, [on_request]) as client:
        await client.publish("loan.requests", LoanRequest(5, 1.0, 1))
        await until(lambda: client.metrics.of("loan.requests").dead)
    [letter] = payloads(memory, "loan.requests.dead")
    assert letter.header(headers.ERROR_CODE) == b"message.correlation"


@pytest.mark.parametrize("text", ["request_id", "$message.payload", "$message.body#/x", "$message.payload#x"])
def test_an_expression_that_names_no_place_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="names no place"):
        read_correlation(text)


def test_a_place_is_found_in_records_mappings_and_lists() -> None:
    assert read_correlation("$message.payload#/a/1/b~1c").in_value({"a": [0, {"b/c": 7}]}) == b"7"
    assert read_correlation("$message.payload#/a/9").in_value({"a": [0]}) is None
    assert read_correlation("$message.payload#/request_id").in_value(LoanReply(3, 1.0)) == b"3"
    with pytest.raises(EncodeError, match="correlates nothing"):
        read_correlation("$message.payload#/a").in_value({"a": [1]})


async def test_a_correlation_that_a_record_does_not_have_keeps_the_client_from_starting(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("loan.requests", correlation="$message.payload#/nowhere")
    async def wrong(request: LoanRequest) -> LoanReply:
        return LoanReply(1, 1.0)

    with pytest.raises(StartupError, match="LoanReply has nothing at"):
        async with Client(memory, registry, [wrong]):
            pass


async def test_a_reply_after_the_timeout_is_late_and_a_second_one_repeated(
    memory: MemoryBroker, registry: Registry
) -> None:
    async with Client(memory, registry) as client:
        with pytest.raises(ReplyTimeout):
            await client.request("loan.requests", LoanRequest(1, 1.0, 1), reply=LoanReply, timeout=0.01)
        [request] = payloads(memory, "loan.requests")
        number, address = (request.header(name) for name in (headers.CORRELATION_ID, headers.REPLY_TO))
        reply = Message(address.decode(), b"", headers=((headers.CORRELATION_ID, number),))
        await memory.publish([reply])
        await until(lambda: client.metrics.replies.late == 1)
        await memory.publish([reply._replace(headers=((headers.CORRELATION_ID, b"unheard-of"),))])
        await until(lambda: client.metrics.replies.repeated == 1)


async def test_ten_thousand_requests_in_flight_all_get_their_reply(
    memory: MemoryBroker, registry: Registry
) -> None:
    everybody_asked = asyncio.Event()

    @endpoint("loan.requests", group="held")
    async def held(request: LoanRequest) -> LoanReply:
        await everybody_asked.wait()
        return LoanReply(request.request_id, 1.0)

    async with Client(memory, registry, [held]) as client:
        asked = asyncio.gather(
            *(
                client.request("loan.requests", LoanRequest(number, 1.0, 1), reply=LoanReply, timeout=300)
                for number in range(10_000)
            )
        )
        await until(lambda: client.metrics.of("loan.requests").published == 10_000)
        everybody_asked.set()
        replies = await asked
    assert [reply.request_id for reply in replies] == list(range(10_000))


async def test_the_reply_channels_of_killed_requesters_are_removed(
    memory: MemoryBroker, registry: Registry
) -> None:
    import time

    now = time.time()
    orphan = addresses.new_address("client", now - addresses.GRACE - 1).channel
    living = addresses.new_address("client", now - addresses.LIFE).channel
    unlike = "client.replies.of-mine"
    for name in (orphan, living, unlike):
        await memory.create(Channel(name))
    async with Client(memory, registry, [cautious]) as client:
        await client.request("loan.requests", LoanRequest(1, 1.0, 1), reply=LoanReply)
        names = await memory.channels()
    assert orphan not in names
    assert {living, unlike} <= set(names)


async def test_a_requester_takes_a_new_channel_before_its_old_one_counts_as_orphaned(
    memory: MemoryBroker, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client(memory, registry, [cautious]) as client:
        await client.request("loan.requests", LoanRequest(1, 1.0, 1), reply=LoanReply)
        monkeypatch.setattr(addresses, "LIFE", -1.0)
        await client.request("loan.requests", LoanRequest(2, 1.0, 1), reply=LoanReply)
        monkeypatch.setattr(addresses, "LIFE", 3600.0)
        await client.request("loan.requests", LoanRequest(3, 1.0, 1), reply=LoanReply)
        [one, two] = [name for name in await memory.channels() if ".replies." in name]
        assert one != two
    assert not [name for name in await memory.channels() if ".replies." in name]
