"""Retries, dead letters, invalid and expired messages, middleware that fails: nothing is lost."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Annotated, Any

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
from dragoman.adapters.memory import MemoryBroker
from dragoman.client import headers
from dragoman.core.errors import ClientError, RegistryUnavailable, UnknownSchema
from dragoman.core.registry import Registry
from dragoman.core.schema import Schema
from dragoman.schema.framing import frame
from dragoman.schema.markers import Min
from tests.client.conftest import payloads
from tests.client.loans import LoanRequest, QuoteV1
from tests.client.waiting import until

QUICK = EndpointOptions(retry=RetryOptions(attempts=3, delay=0.0))


@record
class Payment:
    amount: Annotated[int, Min(1)]


@record(name="Payment")
class UncheckedPayment:
    amount: int


async def test_a_handler_that_fails_is_called_again(memory: MemoryBroker, registry: Registry) -> None:
    calls: list[list[int]] = []

    @record
    class Basket:
        items: list[int]

    @endpoint("baskets", options=QUICK)
    async def on_basket(basket: Basket) -> None:
        calls.append(list(basket.items))
        basket.items.append(99)
        if len(calls) < 3:
            raise ValueError

    async with Client(memory, registry, [on_basket]) as client:
        await client.publish("baskets", Basket([1]))
        await until(lambda: client.metrics.of("baskets").handled)
        assert client.metrics.of("baskets").failed == 2
        assert client.metrics.of("baskets").retried == 2
        assert client.metrics.of("baskets").dead == 0
    assert calls == [[1], [1], [1]], "each attempt is given a value of its own"


async def test_a_dead_letter_keeps_the_frame_and_tells_the_cause(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("loan.requests", group="loans", options=QUICK)
    async def on_request(request: LoanRequest) -> None:
        raise ValueError("no money left")

    async with Client(memory, registry, [on_request]) as client:
        await client.publish(
            "loan.requests", LoanRequest(1, 1.0, 1), key="k", headers={"trace": "t"}, partition=1
        )
        await until(lambda: client.metrics.of("loan.requests").dead)
    [original] = payloads(memory, "loan.requests")
    [letter] = payloads(memory, "loan.requests.dead")
    assert (letter.payload, letter.key) == (original.payload, original.key)
    found = dict(letter.headers)
    assert found["trace"] == b"t"
    assert found[headers.ORIGINAL_CHANNEL] == b"loan.requests"
    assert found[headers.ORIGINAL_PARTITION] == b"1"
    assert found[headers.ORIGINAL_OFFSET] == b"0"
    assert found[headers.ORIGINAL_TIMESTAMP] == str(original.timestamp).encode()
    assert found[headers.CONTRACT] == b"loan.requests-value"
    assert found[headers.CONTRACT_VERSION] == b"1"
    assert found[headers.GROUP] == b"loans"
    assert found[headers.ENDPOINT].endswith(b"on_request")
    assert found[headers.ERROR_CODE] == b"endpoint.failed"
    assert found[headers.ERROR_TYPE] == b"builtins.ValueError"
    assert found[headers.ERROR_MESSAGE] == b"no money left"
    assert found[headers.ATTEMPTS] == b"3"
    assert int(found[headers.FIRST_FAILED_AT]) <= int(found[headers.FAILED_AT])


async def test_a_poison_message_does_not_hold_up_those_behind_it(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[int] = []

    @endpoint("loan.requests", options=QUICK)
    async def on_request(request: LoanRequest) -> None:
        if request.request_id == 3:
            raise ValueError
        got.append(request.request_id)

    async with Client(memory, registry, [on_request]) as client:
        await client.publish_many("loan.requests", [LoanRequest(n, 1.0, 1) for n in range(10)], partition=0)
        await until(lambda: len(got) == 9)
        await until(lambda: _committed(memory, "loan.requests", 10))
    assert got == [0, 1, 2, 4, 5, 6, 7, 8, 9]


async def _committed(memory: MemoryBroker, channel: str, offset: int) -> bool:
    return (await memory.lag(channel))[0].committed == offset


async def test_errors_that_no_repetition_cures_are_not_repeated(
    memory: MemoryBroker, registry: Registry
) -> None:
    calls: list[int] = []

    @endpoint("loan.requests", options=EndpointOptions(retry=RetryOptions(never=(LookupError,))))
    async def on_request(request: LoanRequest) -> None:
        calls.append(1)
        raise KeyError("gone")

    async with Client(memory, registry, [on_request]) as client:
        await client.publish("loan.requests", LoanRequest(1, 1.0, 1))
        await until(lambda: client.metrics.of("loan.requests").dead)
    assert calls == [1]


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"", b"message.frame.truncated"),
        (b"\x00\x00", b"message.frame.truncated"),
        (b'{"json": true}', b"message.frame.foreign"),
        (frame(2_000_000, b"x"), b"message.unknown-schema"),
        (frame(1, b"\xff\xff\xff\xff"), b"message.decode"),
        (frame(1, b""), b"message.decode"),
        (None, b"message.tombstone"),
    ],
)
async def test_what_cannot_be_read_goes_to_the_invalid_channel(
    memory: MemoryBroker, registry: Registry, payload: bytes | None, code: bytes
) -> None:
    got: list[Any] = []

    @endpoint("quotes")
    async def on_quote(quote: QuoteV1) -> None:
        got.append(quote)

    async with Client(memory, registry, [on_quote]) as client:
        assert (await client.producer("quotes", QuoteV1)).schema_id == 1
        await memory.publish([Message("quotes", payload, b"k")])
        await until(lambda: client.metrics.of("quotes").invalid)
        await client.publish("quotes", QuoteV1("good"))
        await until(lambda: got)
        assert client.metrics.of("quotes").dead == 0
    [letter] = payloads(memory, "quotes.invalid")
    assert (letter.payload, letter.key) == (payload, b"k")
    found = letter.header(headers.ERROR_CODE)
    assert found is not None and found.startswith(code)


async def test_a_message_that_is_too_large_is_not_decoded(memory: MemoryBroker, registry: Registry) -> None:
    got: list[str] = []

    @endpoint("quotes")
    async def on_quote(quote: QuoteV1) -> None:
        got.append(quote.bank)

    options = ClientOptions(largest_message=100)
    async with Client(memory, registry, [on_quote], options=options) as client:
        await client.publish("quotes", QuoteV1("x" * 200))
        await client.publish("quotes", QuoteV1("small"))
        await until(lambda: got and client.metrics.of("quotes").invalid)
    assert got == ["small"]
    [letter] = payloads(memory, "quotes.invalid")
    assert letter.header(headers.ERROR_CODE) == b"message.frame.oversize"


async def test_a_value_that_breaks_its_constraints_is_invalid(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("payments")
    async def on_payment(payment: Payment) -> None:
        raise AssertionError("It must not be handled.")

    async with Client(memory, registry, [on_payment]) as client:
        bound = await client.producer("payments", Payment)
        async with Client(memory, registry) as careless:
            other = await careless.producer("unchecked", UncheckedPayment)
            await other.publish(UncheckedPayment(0))
        [bad] = payloads(memory, "unchecked")
        assert bad.payload is not None
        await memory.publish([Message("payments", frame(bound.schema_id, bad.payload[5:]))])
        await until(lambda: client.metrics.of("payments").invalid)
    [letter] = payloads(memory, "payments.invalid")
    found = letter.header(headers.ERROR_CODE)
    assert found is not None and found.startswith(b"message.constraint")


async def test_a_registry_that_is_away_makes_messages_wait_and_loses_none(
    memory: MemoryBroker, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.client.dispatch.REST", 0.01)
    got: list[Any] = []
    away = True

    class Flickering:
        def __getattr__(self, name: str) -> Any:
            return getattr(registry, name)

        async def schema(self, id: int) -> Schema:
            if away:
                raise RegistryUnavailable("gone")
            return await registry.schema(id)

    @endpoint("quotes")
    async def on_quote(quote: dict[str, Any]) -> None:
        got.append(quote)

    async with (
        Client(memory, Flickering(), [on_quote]) as client,  # type: ignore[arg-type]
        Client(memory, registry) as other,
    ):
        await other.publish("quotes", QuoteV1("late"))
        await until(lambda: client.metrics.of("quotes").returned >= 2)
        assert got == []
        away = False
        await until(lambda: got)
    assert got == [{"bank": "late"}]


async def test_a_registry_that_goes_away_after_the_start_stops_nobody(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[str] = []
    away = False

    class Leaving:
        def __getattr__(self, name: str) -> Any:
            if away:
                raise RegistryUnavailable("gone")
            return getattr(registry, name)

    @endpoint("quotes")
    async def on_quote(quote: QuoteV1) -> None:
        got.append(quote.bank)

    async with Client(memory, Leaving(), [on_quote]) as client:  # type: ignore[arg-type]
        producer = await client.producer("quotes", QuoteV1)
        away = True
        await producer.publish(QuoteV1("a"), partition=0)
        await client.publish("quotes", QuoteV1("b"), partition=0)
        await until(lambda: len(got) == 2)
        away = False
    assert got == ["a", "b"]


async def test_a_schema_whose_format_is_not_installed_makes_a_dead_letter(
    memory: MemoryBroker, registry: Registry
) -> None:
    class Foreign:
        def __getattr__(self, name: str) -> Any:
            return getattr(registry, name)

        async def schema(self, id: int) -> Schema:
            return Schema("MORSE", "-.-.", id=id)

    @endpoint("quotes")
    async def on_quote(quote: QuoteV1) -> None: ...

    async with Client(memory, Foreign(), [on_quote]) as client:  # type: ignore[arg-type]
        await memory.publish([Message("quotes", frame(4711, b"x"))])
        await until(lambda: client.metrics.of("quotes").dead)
    [letter] = payloads(memory, "quotes.dead")
    assert letter.header(headers.ERROR_CODE) == b"configuration"


async def test_an_expired_message_is_a_dead_letter(memory: MemoryBroker, registry: Registry) -> None:
    got: list[str] = []

    @endpoint("quotes")
    async def on_quote(quote: QuoteV1) -> None:
        got.append(quote.bank)

    async with Client(memory, registry, [on_quote]) as client:
        await client.publish("quotes", QuoteV1("late"), expires_in=-1.0, partition=0)
        await client.publish("quotes", QuoteV1("early"), expires_in=3600.0, partition=0)
        await client.publish("quotes", QuoteV1("odd"), headers={headers.EXPIRES_AT: "soon"}, partition=0)
        await until(lambda: len(got) == 2)
        assert client.metrics.of("quotes").expired == 1
    assert got == ["early", "odd"]
    [letter] = payloads(memory, "quotes.dead")
    assert letter.header(headers.ERROR_CODE) == b"message.expired"


async def test_without_a_dead_letter_channel_an_expired_message_is_an_invalid_one(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("quotes", options=EndpointOptions(dead_letter=None))
    async def on_quote(quote: QuoteV1) -> None: ...

    async with Client(memory, registry, [on_quote]) as client:
        await client.publish("quotes", QuoteV1("late"), expires_in=-1.0)
        await until(lambda: client.metrics.of("quotes").expired)
    [letter] = payloads(memory, "quotes.invalid")
    assert letter.header(headers.ERROR_CODE) == b"message.expired"


async def test_an_expired_message_that_has_no_channel_to_go_to_is_kept(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("quotes", options=EndpointOptions(dead_letter=None, invalid=None))
    async def on_quote(quote: QuoteV1) -> None: ...

    async with Client(memory, registry, [on_quote]) as client:
        await client.publish("quotes", QuoteV1("late"), expires_in=-1.0)
        await until(lambda: client.metrics.of("quotes").returned)
    assert sum(lag.behind for lag in await memory.lag("quotes", "default")) == 1


async def test_without_a_dead_letter_channel_a_message_comes_again_until_it_works(
    memory: MemoryBroker, registry: Registry
) -> None:
    calls: list[int] = []
    options = EndpointOptions(retry=RetryOptions(attempts=1, delay=0.0), dead_letter=None)

    @endpoint("quotes", options=options)
    async def on_quote(quote: QuoteV1, message: Message) -> None:
        calls.append(message.attempt)
        if len(calls) < 4:
            raise ValueError

    async with Client(memory, registry, [on_quote]) as client:
        await client.publish("quotes", QuoteV1("a"))
        await until(lambda: client.metrics.of("quotes").handled)
    assert calls == [1, 2, 3, 4]


async def test_middleware_wraps_the_handler_from_client_to_endpoint(
    memory: MemoryBroker, registry: Registry
) -> None:
    order: list[str] = []

    def named(name: str) -> Any:
        async def middleware(delivery: Delivery, next: Handler) -> Outcome:
            order.append(f"{name} in")
            try:
                return await next(delivery)
            finally:
                order.append(f"{name} out")

        return middleware

    @endpoint("quotes", middleware=[named("endpoint")])
    async def on_quote(quote: QuoteV1) -> None:
        order.append(quote.bank)

    async with Client(memory, registry, [on_quote], middleware=[named("client")]) as client:
        await client.publish("quotes", QuoteV1("handler"))
        await until(lambda: client.metrics.of("quotes").handled)
    assert order == ["client in", "endpoint in", "handler", "endpoint out", "client out"]


async def test_a_plain_function_that_returns_an_awaitable_is_middleware_too(
    memory: MemoryBroker, registry: Registry
) -> None:
    def passing(delivery: Delivery, next: Handler) -> Awaitable[Outcome]:
        delivery.notes["seen"] = True
        return next(delivery)

    @endpoint("quotes", middleware=[passing])
    async def on_quote(quote: QuoteV1) -> None: ...

    async with Client(memory, registry, [on_quote]) as client:
        await client.publish("quotes", QuoteV1("a"))
        await until(lambda: client.metrics.of("quotes").handled)


async def test_an_error_whose_text_cannot_be_written_becomes_a_letter_too(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("quotes", options=QUICK)
    async def on_quote(quote: QuoteV1) -> LoanRequest:
        raise ValueError("half a character: \ud800")

    async with Client(memory, registry, [on_quote]) as client:
        with pytest.raises(ClientError, match="was not handled"):
            await client.request("quotes", QuoteV1("a"), reply=LoanRequest)
    [letter] = payloads(memory, "quotes.dead")
    assert letter.header(headers.ERROR_MESSAGE) == b"half a character: \\ud800"


@pytest.mark.parametrize("fault", ["raises", "returns nothing"])
async def test_middleware_that_fails_is_reported_and_harms_no_other_message(
    memory: MemoryBroker, registry: Registry, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[str] = []

    async def faulty(delivery: Delivery, next: Handler) -> Outcome:
        if delivery.value.bank == "bad":
            if fault == "raises":
                raise RuntimeError("a bug")
            return None  # type: ignore[return-value]
        return await next(delivery)

    @endpoint("quotes", options=QUICK)
    async def on_quote(quote: QuoteV1) -> None:
        got.append(quote.bank)

    async with Client(memory, registry, [on_quote], middleware=[faulty]) as client:
        await client.publish_many("quotes", [QuoteV1("a"), QuoteV1("bad"), QuoteV1("c")], partition=0)
        await until(lambda: client.metrics.of("quotes").dead == 1 and len(got) == 2)
    assert got == ["a", "c"]
    [letter] = payloads(memory, "quotes.dead")
    assert letter.header(headers.ERROR_CODE) == b"client.middleware"
    assert b"faulty" in (letter.header(headers.ERROR_MESSAGE) or b"")


async def test_the_log_of_an_unreadable_message_shows_no_payload(
    memory: MemoryBroker, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "dragoman")

    @endpoint("quotes")
    async def on_quote(quote: QuoteV1) -> None: ...

    async with Client(memory, registry, [on_quote]) as client:
        await memory.publish([Message("quotes", b"top-secret")])
        await until(lambda: client.metrics.of("quotes").invalid)
    [entry] = [each for each in caplog.records if each.getMessage() == "A message cannot be read."]
    assert entry.__dict__["channel"] == "quotes"
    assert entry.__dict__["error_code"] == "message.frame.foreign"
    assert "top-secret" not in caplog.text


def test_an_unknown_schema_says_what_to_do() -> None:
    error = UnknownSchema("x", next="Was the message written with another registry?", schema_id=7)
    assert "schema_id 7" in str(error)
