"""Which endpoint takes a message: its own version, or the newest one that the contract lets read it."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Client, ClientOptions, EndpointOptions, Naming, RetryOptions, controller, endpoint
from dragoman.adapters.memory import MemoryBroker
from dragoman.client import headers
from dragoman.client.contracts import Contracts
from dragoman.client.dispatch import promised
from dragoman.core.contract import Compatibility
from dragoman.core.message import Message
from dragoman.core.registry import Registry
from tests.client.conftest import payloads
from tests.client.loans import LoanReply, LoanRequest, QuoteElsewhere, QuoteV1, QuoteV2, QuoteV3
from tests.client.waiting import until

ONCE = EndpointOptions(retry=RetryOptions(attempts=1))


def endpoints(got: list[Any], *classes: type) -> list[Any]:
    made = []
    for cls in classes:

        @endpoint("quotes", options=ONCE)
        async def on_quote(quote: cls) -> None:  # type: ignore[valid-type]
            got.append(quote)

        made.append(on_quote)
    return made


async def publish(memory: MemoryBroker, registry: Registry, *quotes: object) -> None:
    async with Client(memory, registry) as client:
        for quote in quotes:
            await client.publish("quotes", quote, partition=0)


async def test_each_version_goes_to_its_own_endpoint(memory: MemoryBroker, registry: Registry) -> None:
    got: list[Any] = []
    async with Client(memory, registry, endpoints(got, QuoteV1, QuoteV2)):
        await publish(memory, registry, QuoteV1("a"), QuoteV2("b", 2.0))
        await until(lambda: len(got) == 2)
    assert got == [QuoteV1("a"), QuoteV2("b", 2.0)]


async def test_an_older_message_is_read_as_the_newest_version_that_can(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[Any] = []
    await publish(memory, registry, QuoteV1("a"))
    async with Client(memory, registry, endpoints(got, QuoteV2, QuoteV3)):
        await until(lambda: got)
    assert got == [QuoteV3("a", 1.5, 0.0)]


async def test_a_newer_message_reaches_an_older_endpoint_where_the_contract_looks_forward(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[Any] = []
    await registry.set_compatibility("quotes-value", Compatibility.FULL)
    async with Client(memory, registry, endpoints(got, QuoteV1)) as client:
        await publish(memory, registry, QuoteV2("b", 2.0))
        await until(lambda: got)
        assert client.metrics.of("quotes").handled == 1
    assert got == [QuoteV1("b")]


async def test_of_several_endpoints_in_a_controller_the_best_compatible_one_is_chosen(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[tuple[str, Any]] = []

    @controller(group="quotes", options=ONCE)
    class Quotes:
        @endpoint("quotes")
        async def on_first(self, quote: QuoteV1) -> None:
            got.append(("first", quote))

        @endpoint("quotes")
        async def on_second(self, quote: QuoteV2) -> None:
            got.append(("second", quote))

    await registry.set_compatibility("quotes-value", Compatibility.FULL)
    async with Client(memory, registry, [Quotes]):
        await publish(memory, registry, QuoteV1("a"), QuoteV2("b", 2.0), QuoteV3("c", 3.0, 9.0))
        await until(lambda: len(got) == 3)
    # The third version has no endpoint: it is cast down to the newest that there is.
    assert got == [("first", QuoteV1("a")), ("second", QuoteV2("b", 2.0)), ("second", QuoteV2("c", 3.0))]


async def test_a_newer_message_is_a_dead_letter_where_the_contract_only_looks_back(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[Any] = []
    await registry.set_compatibility("quotes-value", Compatibility.BACKWARD)
    async with Client(memory, registry, endpoints(got, QuoteV1)) as client:
        await publish(memory, registry, QuoteV2("b", 2.0))
        await until(lambda: client.metrics.of("quotes").dead)
    assert got == []
    [letter] = payloads(memory, "quotes.dead")
    assert letter.header(headers.ERROR_CODE) == b"client.no-endpoint"
    assert letter.header(headers.ORIGINAL_CHANNEL) == b"quotes"


async def test_without_a_strategy_only_the_exact_version_is_taken(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[Any] = []
    await registry.set_compatibility("quotes-value", Compatibility.NONE)
    await publish(memory, registry, QuoteV1("a"))
    async with Client(memory, registry, endpoints(got, QuoteV2)) as client:
        await publish(memory, registry, QuoteV2("b", 2.0))
        await until(lambda: got and client.metrics.of("quotes").dead == 1)
    assert got == [QuoteV2("b", 2.0)]


async def test_versions_that_cannot_be_resolved_are_not_forced_on_an_endpoint(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[Any] = []
    await registry.set_compatibility("quotes-value", Compatibility.NONE)
    await publish(memory, registry, QuoteV1("a"), QuoteElsewhere(7))
    await registry.set_compatibility("quotes-value", Compatibility.FULL)
    options = ClientOptions(auto_register_schemas=False)
    async with Client(memory, registry, endpoints(got, QuoteElsewhere), options=options) as client:
        await until(lambda: got and client.metrics.of("quotes").dead == 1)
    assert got == [QuoteElsewhere(7)]


async def test_a_schema_of_another_contract_has_no_endpoint(memory: MemoryBroker, registry: Registry) -> None:
    got: list[Any] = []
    async with Client(memory, registry, endpoints(got, QuoteV1)) as client:
        foreign = await Contracts(registry, ClientOptions()).bind("elsewhere", LoanReply)
        await memory.publish([Message("quotes", foreign.encode(LoanReply(1, 1.0)))])
        await until(lambda: client.metrics.of("quotes").dead == 1)
    assert got == []


async def test_several_records_share_a_channel_under_contracts_of_their_own(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[Any] = []
    options = ClientOptions(naming=Naming.CHANNEL_RECORD)

    @endpoint("loans")
    async def on_either(loan: LoanRequest | LoanReply) -> None:
        got.append(loan)

    async with Client(memory, registry, [on_either], options=options) as client:
        await client.publish("loans", LoanReply(1, 1.0), partition=0)
        await client.publish("loans", LoanRequest(1, 1.0, 1), partition=0)
        await until(lambda: len(got) == 2)
    assert [type(each) for each in got] == [LoanReply, LoanRequest]
    assert set(await registry.contracts()) == {"loans-com.mycorp.LoanReply", "loans-com.mycorp.LoanRequest"}


@pytest.mark.parametrize(
    ("strategy", "older", "newer"),
    [
        (Compatibility.NONE, False, False),
        (Compatibility.BACKWARD, True, False),
        (Compatibility.FORWARD_TRANSITIVE, False, True),
        (Compatibility.FULL, True, True),
    ],
)
def test_a_strategy_promises_one_direction_or_both(strategy: Compatibility, older: bool, newer: bool) -> None:
    assert promised(strategy, writer=1, reader=2) is older
    assert promised(strategy, writer=2, reader=1) is newer
    assert promised(strategy, writer=1, reader=1)
