"""Everything an endpoint needs is checked before the first message, and every problem is told at once."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from dragoman import (
    Channel,
    Client,
    ClientOptions,
    EndpointOptions,
    Payload,
    Producer,
    RetryOptions,
    To,
    controller,
    endpoint,
    record,
)
from dragoman.adapters.memory import MemoryBroker
from dragoman.core.contract import Compatibility
from dragoman.core.errors import ConfigurationError, StartupError
from dragoman.core.registry import Registry
from tests.client.loans import LoanReply, LoanRequest, QuoteElsewhere, QuoteV1

NOTHING_AUTOMATIC = ClientOptions(auto_register_channels=False, auto_register_schemas=False)


async def refusal(client: Client) -> str:
    with pytest.raises(StartupError) as caught:
        async with client:
            pass
    return str(caught.value)


async def test_all_missing_channels_and_contracts_are_named_in_one_error(
    memory: MemoryBroker, registry: Registry
) -> None:
    @controller(group="loans")
    class Loans:
        quotes: Annotated[Producer[QuoteV1], To("loan.quotes")]

        @endpoint("loan.requests", reply_to="loan.replies")
        async def on_request(self, request: LoanRequest) -> LoanReply:
            raise AssertionError("No message may be handled.")

    text = await refusal(Client(memory, registry, [Loans], options=NOTHING_AUTOMATIC))
    for name in (
        "loan.requests",
        "loan.requests.dead",
        "loan.requests.invalid",
        "loan.replies",
        "loan.quotes",
    ):
        assert f"There is no channel {name!r}." in text
    for contract in ("loan.requests-value", "loan.replies-value", "loan.quotes-value"):
        assert f"The contract {contract!r} has no version" in text
    assert "Loans.on_request" in text
    assert "dragoman channel create loan.requests" in text
    assert "8 problems" in text


async def test_an_incompatible_schema_is_refused_before_anything_is_consumed(
    memory: MemoryBroker, registry: Registry
) -> None:
    await registry.set_compatibility("quotes-value", Compatibility.BACKWARD)
    async with Client(memory, registry) as client:
        await client.publish("quotes", QuoteV1("a"))
    got: list[Any] = []

    @endpoint("quotes", group="new")
    async def on_quote(quote: QuoteElsewhere) -> None:
        got.append(quote)

    text = await refusal(Client(memory, registry, [on_quote]))
    assert "on_quote" in text and "quotes-value" in text
    assert got == []
    assert await memory.lag("quotes", "new") == []


async def test_what_is_there_already_is_enough(memory: MemoryBroker, registry: Registry) -> None:
    @endpoint("quotes")
    async def on_quote(quote: QuoteV1) -> None: ...

    async with Client(memory, registry, [on_quote]):
        pass
    async with Client(memory, registry, [on_quote], options=NOTHING_AUTOMATIC):
        pass


async def test_two_endpoints_for_the_same_messages_of_a_group_are_refused(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("quotes", group="g")
    async def one(quote: QuoteV1) -> None: ...

    @endpoint("quotes", group="g", options=EndpointOptions(concurrency=2))
    async def other(quote: QuoteV1) -> None: ...

    text = await refusal(Client(memory, registry, [one, other]))
    assert "both take the same messages" in text
    assert "differ in 'concurrency'" in text


async def test_two_classes_of_one_version_are_the_same_messages(
    memory: MemoryBroker, registry: Registry
) -> None:
    """Only one of the two endpoints would ever be given them."""

    @record(name="Quote")
    class Same:
        rate: float

    @record(name="Quote")
    class Again:
        rate: float

    small, large = (EndpointOptions(consumed_if=f"payload.rate {sign} 1") for sign in ("<", ">="))

    @endpoint("quotes", group="g", options=small)
    async def one(quote: Same) -> None: ...

    @endpoint("quotes", group="g", options=large)
    async def other(quote: Again) -> None: ...

    @endpoint("quotes", group="h", options=large)
    async def apart(quote: Again) -> None: ...

    assert "both take the same messages" in await refusal(Client(memory, registry, [one, other]))
    async with Client(memory, registry, [one, apart]):
        pass


async def test_an_endpoint_of_bytes_stands_alone(memory: MemoryBroker, registry: Registry) -> None:
    @endpoint("quotes")
    async def typed(quote: QuoteV1) -> None: ...

    @endpoint("quotes")
    async def raw(frame: Annotated[bytes, Payload]) -> None: ...

    assert "every message as bytes" in await refusal(Client(memory, registry, [typed, raw]))


async def test_mistakes_in_signatures_are_named_with_the_endpoint(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("a")
    async def without_payload() -> None: ...

    @endpoint("b")
    async def without_annotation(request) -> None: ...  # type: ignore[no-untyped-def]

    @endpoint("c")
    async def two_payloads(one: QuoteV1, other: LoanReply) -> None: ...

    @endpoint("d")
    async def no_record(request: list) -> None: ...  # type: ignore[type-arg]

    @endpoint("e", reply_to="f")
    async def no_reply(quote: QuoteV1) -> None: ...

    @controller
    class Needy:
        def __init__(self, store: object) -> None: ...

        @endpoint("g")
        async def on(self, quote: QuoteV1) -> None: ...

    @controller
    class Empty: ...

    given = [without_payload, without_annotation, two_payloads, no_record, no_reply, Needy, Empty, object()]
    text = await refusal(Client(memory, registry, given))
    assert "8 problems" in text
    for part in (
        "one payload parameter, this has 0",
        "'request' has no annotation",
        "this has 2: one, other",
        "cannot be <class 'list'>",
        "returns no record",
        "Give the client an instance",
        "Empty has no endpoints",
        "object is not a controller",
    ):
        assert part in text


async def test_a_failed_start_leaves_nothing_behind(memory: MemoryBroker, registry: Registry) -> None:
    @endpoint("quotes", group="g")
    async def on_quote(quote: QuoteV1) -> None: ...

    await memory.create(Channel("quotes"))
    await refusal(Client(memory, registry, [on_quote], options=NOTHING_AUTOMATIC))
    assert await memory.lag("quotes") == []
    assert await registry.contracts() == []


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: RetryOptions(attempts=0),
        lambda: RetryOptions(jitter=1.0),
        lambda: RetryOptions(factor=0.5),
        lambda: EndpointOptions(concurrency=0),
        lambda: EndpointOptions(deliveries=0),
        lambda: ClientOptions(window=0),
        lambda: ClientOptions(drain_timeout=-1),
        lambda: endpoint("not a channel"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        wrong()


def test_pauses_grow_to_a_limit_however_often_a_handler_fails() -> None:
    options = RetryOptions(delay=1.0, factor=2.0, longest=10.0, jitter=0.0)
    assert [options.pause(attempt) for attempt in (1, 2, 3, 4, 5, 5000)] == [1, 2, 4, 8, 10, 10]
    spread = RetryOptions(delay=1.0, jitter=0.5)
    assert all(0.5 <= spread.pause(1) <= 1.5 for _ in range(100))
