"""Letters are found with their causes, sent back once with their history, or put away."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import uuid4

import pytest

from dragoman import Client, EndpointOptions, Payload, RetryOptions, endpoint
from dragoman.adapters.memory import MemoryBroker
from dragoman.client import headers
from dragoman.client.dead_letters import DeadLetters
from dragoman.client.history import history
from dragoman.client.replay import replay
from dragoman.core.channel import Channel
from dragoman.core.errors import ChannelNotFound, NotFound
from dragoman.core.message import Message
from dragoman.core.registry import Registry
from tests.client.conftest import payloads
from tests.client.loans import LoanRequest, QuoteV1
from tests.client.waiting import until
from tests.services.kafka import Kafka

ONCE = EndpointOptions(retry=RetryOptions(attempts=1))


async def test_a_letter_goes_back_once_and_is_handled_when_the_cause_is_cured(
    memory: MemoryBroker, registry: Registry
) -> None:
    healthy = False
    got: list[tuple[str, bytes | None]] = []

    @endpoint("quotes", options=ONCE)
    async def on_quote(quote: QuoteV1, message: Message) -> None:
        if not healthy:
            raise ValueError
        got.append((quote.bank, message.header(headers.REPLAYS)))

    async with Client(memory, registry, [on_quote]) as client:
        await client.publish("quotes", QuoteV1("a"), key="k", headers={"mine": "1"})
        await until(lambda: client.metrics.of("quotes").dead == 1)
        letters = DeadLetters(memory, "quotes.dead")
        await letters.replay(await letters.find())
        await until(lambda: client.metrics.of("quotes").dead == 2)
        assert await letters.find(code="message") == []
        [again] = await letters.find(code="endpoint")
        assert again.cause(headers.REPLAYS) == "1"
        healthy = True
        await letters.replay([again])
        await until(lambda: got)
        assert await letters.find() == []
    assert got == [("a", b"2")]
    last = payloads(memory, "quotes")[-1]
    assert last.key == b"k"
    assert dict(last.headers)["mine"] == b"1"
    assert not headers.CAUSE & {name for name, _ in last.headers}
    assert dict(last.headers)[headers.LAST_ERROR_CODE] == b"endpoint.failed"


async def test_an_expired_message_that_is_sent_back_is_handled(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[str] = []

    @endpoint("quotes", options=ONCE)
    async def on_quote(quote: QuoteV1) -> None:
        got.append(quote.bank)

    async with Client(memory, registry, [on_quote]) as client:
        await client.publish("quotes", QuoteV1("late"), expires_in=-1.0)
        await until(lambda: client.metrics.of("quotes").expired)
        letters = DeadLetters(memory, "quotes.dead")
        await letters.replay(await letters.find(code="message.expired"))
        await until(lambda: got)
    assert got == ["late"]


async def test_discarded_letters_are_listed_no_more_but_stay_in_the_channel(memory: MemoryBroker) -> None:
    await memory.create(Channel("orders.dead", partitions=2))
    for number in range(4):
        await memory.publish([Message("orders.dead", b"%d" % number, partition=number % 2)])
    letters = DeadLetters(memory, "orders.dead")
    chosen = await letters.get("1:0")
    await letters.discard([chosen])
    assert [letter.id for letter in await letters.find()] == ["0:0", "0:1", "1:1"]
    with pytest.raises(NotFound, match="no open letter"):
        await letters.get("1:0")
    assert len(payloads(memory, "orders.dead")) == 5
    assert chosen.channel == "orders"


async def test_letters_are_filtered_by_time_code_and_endpoint(memory: MemoryBroker) -> None:
    await memory.create(Channel("orders.dead", partitions=1))
    for code, endpoint_name, failed in (("a.b", "One.on", 10), ("a.c", "Two.on", 20), ("x", "One.on", 30)):
        cause = {headers.ERROR_CODE: code, headers.ENDPOINT: endpoint_name, headers.FAILED_AT: str(failed)}
        pairs = tuple((name, value.encode()) for name, value in cause.items())
        await memory.publish([Message("orders.dead", b"", headers=pairs)])
    letters = DeadLetters(memory, "orders.dead")
    assert [letter.code for letter in await letters.find(code="a.")] == ["a.b", "a.c"]
    assert [letter.code for letter in await letters.find(since=20)] == ["a.c", "x"]
    assert [letter.code for letter in await letters.find(endpoint="One.on", code="a")] == ["a.b"]


async def test_markers_in_a_letters_channel_are_not_given_to_endpoints(
    memory: MemoryBroker, registry: Registry
) -> None:
    got: list[str] = []

    @endpoint("quotes.dead")
    async def on_letter(quote: QuoteV1) -> None:
        got.append(quote.bank)

    async with Client(memory, registry, [on_letter]) as client:
        await client.publish("quotes.dead", QuoteV1("a"), partition=0)
        letters = DeadLetters(memory, "quotes.dead")
        await letters.discard(await letters.find())
        await client.publish("quotes.dead", QuoteV1("b"), partition=0)
        await until(lambda: len(got) == 2)
        assert client.metrics.of("quotes.dead").invalid == 0


async def test_markers_are_no_tombstones_either(memory: MemoryBroker, registry: Registry) -> None:
    typed: list[Any] = []
    raw: list[Any] = []

    @endpoint("quotes.dead", group="typed")
    async def on_letter(quote: QuoteV1 | None) -> None:
        typed.append(quote)

    @endpoint("quotes.dead", group="raw")
    async def on_frame(frame: Annotated[bytes | None, Payload]) -> None:
        raw.append(frame)

    async with Client(memory, registry, [on_letter, on_frame]) as client:
        producer = await client.producer("quotes.dead", QuoteV1)
        await producer.publish(None, partition=0)
        await until(lambda: len(typed) == len(raw) == 1)
        letters = DeadLetters(memory, "quotes.dead")
        await letters.discard(await letters.find())
        await producer.publish(QuoteV1("b"), partition=0)
        await until(lambda: typed[-1] is not None and raw[-1] is not None)
    assert typed == [None, QuoteV1("b")]
    assert [frame is None for frame in raw] == [True, False]


async def test_history_merges_partitions_by_time_and_can_start_anywhere(memory: MemoryBroker) -> None:
    await memory.create(Channel("c", partitions=3))
    for number in range(9):
        await memory.publish([Message("c", b"%d" % number, partition=number % 3, timestamp=1000 + number)])

    async def read(**options: object) -> list[int]:
        return [int(message.payload or b"") async for message in history(memory, "c", **options)]  # type: ignore[arg-type]

    assert await read() == list(range(9))
    assert await read(start=1004) == [4, 5, 6, 7, 8]
    assert await read(start="latest") == []
    assert await read(last=1) == [6, 7, 8]
    with pytest.raises(ChannelNotFound):
        [_ async for _ in history(memory, "nowhere")]


async def test_history_follows_what_comes_later(memory: MemoryBroker) -> None:
    await memory.create(Channel("c", partitions=2))
    await memory.publish([Message("c", b"0", partition=0)])
    seen: list[bytes | None] = []
    reading = history(memory, "c", follow=True)
    async for message in reading:
        seen.append(message.payload)
        if len(seen) == 3:
            break
        await memory.publish([Message("c", b"%d" % len(seen), partition=len(seen) % 2)])
    await reading.aclose()  # type: ignore[attr-defined]
    assert seen == [b"0", b"1", b"2"]


async def test_a_replay_copies_frames_keys_and_headers(memory: MemoryBroker) -> None:
    for name in ("from", "to"):
        await memory.create(Channel(name, partitions=1))
    pairs = (("a", b"1"),)
    sent = [Message("from", b"%d" % n, b"k", pairs, timestamp=1000 + n) for n in range(1200)]
    await memory.publish(sent)
    told: list[int] = []
    assert await replay(memory, "from", "to", start=1100, until=2150, progress=told.append) == 1050
    copies = payloads(memory, "to")
    assert [copy.payload for copy in copies] == [message.payload for message in sent[100:1150]]
    assert all(copy.key == b"k" and copy.header("a") == b"1" for copy in copies)
    assert copies[0].header(headers.REPLAYED_FROM) == b"from:0:100"
    assert told == [500, 1000]


async def test_on_kafka_a_letter_goes_back_and_is_marked_in_one_transaction(kafka_server: Kafka) -> None:
    channel = f"loans-{uuid4().hex}"
    fails = [True]
    got: list[tuple[int, bytes | None]] = []

    @endpoint(channel, group=channel, options=EndpointOptions(retry=RetryOptions(attempts=1)))
    async def on_request(request: LoanRequest, message: Message) -> None:
        if fails[0]:
            raise ValueError
        got.append((request.request_id, message.header(headers.REPLAYS)))

    async with Client(kafka_server.url, "memory://", [on_request]) as client:
        await client.publish(channel, LoanRequest(1, 1.0, 1))
        await until(lambda: client.metrics.of(channel).dead)
        letters = DeadLetters(client.broker, f"{channel}.dead")
        fails[0] = False
        [position] = await letters.replay(await letters.find())
        await until(lambda: got)
        assert await letters.find() == []
    assert got == [(1, b"1")]
    assert position is None or position.channel == channel
