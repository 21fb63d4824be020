"""Numbers that add up, under labels that are few: whatever becomes of messages, and whoever asks."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from dragoman import Client, ClientOptions, EndpointOptions, RetryOptions, endpoint, record
from dragoman.adapters.memory import MemoryBroker
from dragoman.client.addresses import new_address, own_group
from dragoman.client.dead_letters import DeadLetters
from dragoman.client.delivery import Delivery
from dragoman.client.exposition import exposition
from dragoman.client.headers import CORRELATION_ID, EXPIRES_AT, REPLY_TO
from dragoman.client.labels import label_of
from dragoman.client.metrics import ENDS, REPLY_ENDS, ChannelMetrics, Metrics
from dragoman.client.options import LaterOptions
from dragoman.client.outcome import DONE, Handler, Outcome, again
from dragoman.core.broker import Broker, Lag
from dragoman.core.channel import Channel
from dragoman.core.loading import BROKERS, load, scheme_of
from dragoman.core.message import Message
from dragoman.core.registry import Registry
from tests.client.loans import LoanReply, LoanRequest
from tests.client.waiting import until

ONCE = RetryOptions(attempts=1)
TWICE = RetryOptions(attempts=2, delay=0.0)
COUNT = 60
GENERATED = re.compile(r"[0-9a-f]{12,}|[0-9a-f]{8}-[0-9a-f]{4}|_INBOX")


@record
class Turned(Exception):
    reason: str


def ended(counters: ChannelMetrics, ends: tuple[str, ...] = ENDS) -> int:
    return sum(getattr(counters, each) for each in ends)


@pytest.fixture(params=["memory", "embedded", "mosquitto", "nats", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "memory":
            return f"memory://{secrets.token_hex(4)}"
        case "embedded":
            return f"embedded://{tmp_path / 'broker'}"
        case name:
            return str(request.getfixturevalue(f"{name}_server").url)


class Work:
    """Endpoints between which messages end in all ways. Each counts in the channel it reads."""

    def __init__(self, run: str) -> None:
        self.one, self.asked, self.slow = f"one-{run}", f"asked-{run}", f"slow-{run}"
        self.group = f"group-{run}"
        self.tries: set[int] = set()
        self.given_back: set[int] = set()
        self.blocked = asyncio.Event()

    def endpoints(self) -> list[object]:
        return [
            self.selective(),
            self.skipping(),
            self.deciding(),
            self.postponing(),
            self.quoting(),
            self.blocking(),
        ]

    def selective(self) -> object:
        """Some are not consumed, some are given back once, some are dead letters."""

        async def return_some(delivery: Delivery, next: Handler) -> Outcome:
            number = delivery.value.request_id
            if number % 10 == 3 and number not in self.given_back:
                self.given_back.add(number)
                return again()
            return await next(delivery)

        options = EndpointOptions(retry=TWICE, concurrency=4, consumed_if="payload.term_in_months != 9")

        @endpoint(self.one, group=f"{self.group}-a", options=options, middleware=[return_some])
        async def handle(request: LoanRequest) -> None:
            if request.request_id % 10 == 5:
                raise ValueError
            if request.request_id % 10 == 6 and request.request_id not in self.tries:
                self.tries.add(request.request_id)
                raise ValueError

        return handle

    def skipping(self) -> object:
        options = EndpointOptions(retry=ONCE, on_failure="skip", batch_size=7)

        @endpoint(self.one, group=f"{self.group}-b", options=options)
        async def handle(requests: list[LoanRequest]) -> None:
            if any(each.request_id % 10 == 1 for each in requests):
                raise ValueError

        return handle

    def deciding(self) -> object:
        async def decide(delivery: Delivery, error: Exception) -> Outcome:
            return DONE

        options = EndpointOptions(retry=ONCE, on_failure=decide)

        @endpoint(self.one, group=f"{self.group}-c", options=options)
        def handle(request: LoanRequest) -> None:
            if request.request_id % 10 == 2:
                raise ValueError

        return handle

    def postponing(self) -> object:
        options = EndpointOptions(retry=ONCE, later=LaterOptions(delays=(0.01, 0.01)))

        @endpoint(self.one, group=f"{self.group}-d", options=options)
        async def handle(request: LoanRequest) -> None:
            if request.request_id % 10 == 4:
                raise ValueError

        return handle

    def quoting(self) -> object:
        @endpoint(self.asked, group=f"{self.group}-e", raises=[Turned], options=EndpointOptions(retry=ONCE))
        async def handle(request: LoanRequest) -> LoanReply:
            if request.request_id % 3 == 1:
                raise Turned("No.")
            if request.request_id % 3 == 2:
                raise ValueError
            return LoanReply(request.request_id, 1.0)

        return handle

    def blocking(self) -> object:
        """What is in flight when the client is closed is delivered again."""

        @endpoint(self.slow, group=f"{self.group}-f")
        async def handle(request: LoanRequest) -> None:
            self.blocked.set()
            await asyncio.Event().wait()

        return handle

    GROUPS = 4

    async def give(self, client: Client, broker: Broker) -> int:
        """Publish to the first channel; how many messages come to each of its groups."""
        for number in range(COUNT):
            headers = {EXPIRES_AT: "1"} if number % 10 == 7 else {}
            months = 9 if number % 10 == 8 else 1
            await client.publish(
                self.one, LoanRequest(number, 1.0, months), headers=headers, key=str(number % 5)
            )
        await broker.publish([Message(self.one, b"garbage"), Message(self.one, None)])
        parts = await client.publish_in_parts(
            self.one, LoanRequest(0, 1.0, 1, "x" * 5000), part_size=1000, key="0"
        )
        return COUNT + 2 + len(parts)


async def test_what_was_received_has_come_to_an_end(url: str, registry: Registry) -> None:
    work = Work(secrets.token_hex(4))
    broker: Broker = load(BROKERS, scheme_of(url))(url)
    await broker.connect()
    options = ClientOptions(drain_timeout=0.1)
    async with Client(url, registry, work.endpoints(), options=options) as client:
        for number in range(9):
            asked = client.request(work.asked, LoanRequest(number, 1.0, 1), reply=LoanReply, raises=[Turned])
            await asyncio.gather(asked, return_exceptions=True)
        await client.publish_many(work.slow, [LoanRequest(number, 1.0, 1) for number in range(9)])
        given = await work.give(client, broker)
        counters = client.metrics.of(work.one)

        def final() -> int:
            return ended(counters) - counters.returned - counters.revoked - counters.postponed

        await until(lambda: final() >= given * work.GROUPS)
        await until(work.blocked.is_set)
        metrics = client.metrics
    await broker.close()
    for channel, each in metrics.channels.items():
        assert each.received == ended(each), (channel, each)
    assert metrics.replies.received == ended(metrics.replies, REPLY_ENDS) == 9
    for end in ("handled", "dead", "invalid", "expired", "skipped", "unselected", "postponed", "returned"):
        assert getattr(counters, end), f"the run had none that was {end}"
    assert metrics.of(work.slow).returned
    assert metrics.of(work.asked).replied == 6


async def test_marks_of_settled_letters_are_counted(memory: MemoryBroker, registry: Registry) -> None:
    @endpoint("loans", options=EndpointOptions(retry=ONCE))
    async def failing(request: LoanRequest) -> None:
        raise ValueError

    got: list[int] = []

    @endpoint("loans.dead", group="letters")
    async def reading(request: LoanRequest) -> None:
        got.append(request.request_id)

    async with Client(memory, registry, [failing, reading]) as client:
        await client.publish("loans", LoanRequest(1, 1.0, 1))
        counters = client.metrics.of("loans.dead")
        await until(lambda: got)
        letters = DeadLetters(memory, "loans.dead")
        await letters.discard(await letters.find())
        await until(lambda: counters.ignored)
    assert (counters.received, counters.handled, counters.ignored) == (2, 1, 1)


async def test_answers_to_others_on_a_shared_channel_are_counted(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("loans", reply_to="loan.replies")
    async def quote(request: LoanRequest) -> LoanReply:
        return LoanReply(request.request_id, 1.0)

    async with Client(memory, registry, [quote]) as client:
        asked = LoanRequest(1, 1.0, 1)
        await client.request("loans", asked, reply=LoanReply, reply_to="loan.replies")
        await client.publish("loans", asked, headers={CORRELATION_ID: "of another"})
        await until(lambda: client.metrics.replies.received == 2)
        assert (client.metrics.replies.handled, client.metrics.replies.unselected) == (1, 1)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", lambda name: provider.get_tracer(name))
    yield exporter
    provider.shutdown()


@pytest.mark.parametrize("kind", ["memory", "embedded"])
async def test_names_of_spans_and_labels_do_not_grow_with_clients(
    kind: str, registry: Registry, spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    """Replies, streams, errors, refusals and groups without a name: three clients give what one gives."""
    url = "memory://few-names" if kind == "memory" else f"embedded://{tmp_path / 'broker'}"
    traced = ClientOptions(tracing=True)

    @endpoint("few.asked", group="few", raises=[Turned], options=EndpointOptions(retry=ONCE))
    async def quote(request: LoanRequest) -> LoanReply:
        if request.request_id == 1:
            raise Turned("No.")
        if request.request_id == 2:
            raise ValueError
        return LoanReply(request.request_id, 1.0)

    @endpoint("few.streams", group="few")
    async def offers(request: LoanRequest) -> AsyncIterator[LoanReply]:
        yield LoanReply(request.request_id, 1.0)

    names: list[set[str]] = []
    labels: list[set[str]] = []
    async with Client(url, registry, [quote, offers], options=traced):
        for address in (None, "_INBOX.4kUx7JqzUVCvQZ", "amq.gen-f3a0", f"to/{secrets.token_hex(16)}"):
            heard: list[int] = []
            listen = _listening(heard)
            async with Client(url, registry, [listen], options=traced) as client:
                for number in range(3):
                    asked = client.request(
                        "few.asked", LoanRequest(number, 1.0, 1), reply=LoanReply, raises=[Turned]
                    )
                    await asyncio.gather(asked, return_exceptions=True)
                stream = client.request_stream("few.streams", LoanRequest(1, 1.0, 1), reply=LoanReply)
                assert [each.request_id async for each in stream] == [1]
                if address is not None:
                    await client.publish("few.asked", LoanRequest(4, 1.0, 1), headers={REPLY_TO: address})
                await client.publish("few.news", LoanRequest(1, 1.0, 1))
                await until(partial(_twice, heard))
                text = await client.exposition()
            names.append({span.name for span in spans.get_finished_spans()})
            samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
            labels.append({value for sample in samples for value in sample.labels.values()})
            series = [(sample.name, *sorted(sample.labels.items())) for sample in samples]
            assert len(series) == len(set(series))
    assert all(each == names[0] for each in names)
    assert all(each == labels[0] for each in labels)
    assert "reply few.asked" in names[0]
    assert "" not in labels[0]
    assert "client.replies.*" in labels[0]
    assert [name for name in names[-1] | labels[-1] if GENERATED.search(name)] == []


def _listening(heard: list[int]) -> object:
    """In a group without a name; the first message is tried again later."""

    @endpoint(
        "few.news", durable=False, options=EndpointOptions(retry=ONCE, later=LaterOptions(delays=(0.0,)))
    )
    async def listen(request: LoanRequest) -> None:
        heard.append(request.request_id)
        if len(heard) == 1:
            raise ValueError

    return listen


def _twice(heard: list[int]) -> bool:
    return len(heard) >= 2


def test_numbers_of_generated_names_are_added_up() -> None:
    metrics = Metrics()
    addresses = [new_address("client", float(moment)).channel for moment in range(3)]
    for address in addresses:
        metrics.of(address).published += 1
        metrics.of(address).received += 2
        metrics.latency_of(address).observe(0.5)
    metrics.replies.received = 1
    one, two = (own_group("client") for _ in range(2))
    groups = {one: 3, two: 4, "bank": 1}
    lags = [Lag(group, "news", 0, committed=2, end=7) for group in groups]
    lines = exposition(metrics, groups, lags).splitlines()
    assert 'dragoman_client_published_total{channel="client.replies.*"} 3' in lines
    assert 'dragoman_client_received_total{channel="client.replies.*"} 7' in lines
    assert 'dragoman_client_handling_seconds_count{channel="client.replies.*"} 3' in lines
    assert 'dragoman_client_in_flight{group="client.own.*"} 7' in lines
    assert 'dragoman_client_lag{channel="news",group="client.own.*",partition="0"} 10' in lines
    assert 'dragoman_client_lag{channel="news",group="bank",partition="0"} 5' in lines
    assert GENERATED.search("\n".join(lines)) is None


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("orders", "orders"),
        ("orders.2026", "orders.2026"),
        ("orders.deadbeef", "orders.deadbeef"),
        ("orders.0123456789abcdef", "orders.0123456789abcdef"),
        ("orders.0123456789abcdef01234567", "orders.0123456789abcdef01234567"),
        ("0123456789abcdef.own", "0123456789abcdef.own"),
        ("client.own.0123456789abcdef", "client.own.*"),
        ("client.own.0123456789abcdef01234567", "client.own.0123456789abcdef01234567"),
        ("client.own.0123456789abcdef.retry", "client.own.*.retry"),
        ("orders.retry.client.own.0123456789abcdef", "orders.retry.client.own.*"),
        ("web.replies.0123456789abcdef01234567", "web.replies.*"),
        ("web.replies.0123456789abcdef0123456", "web.replies.0123456789abcdef0123456"),
    ],
)
def test_only_what_is_generated_is_left_out(name: str, label: str) -> None:
    assert label_of(name) == label


def test_names_that_are_generated_are_recognised() -> None:
    assert label_of(own_group("orders.web")) == "orders.web.own.*"
    assert label_of(new_address("orders.web", 1e9).channel) == "orders.web.replies.*"


async def test_a_channel_that_is_named_like_replies_is_not_taken_for_them(
    memory: MemoryBroker, registry: Registry
) -> None:
    async with Client(memory, registry) as client:
        await memory.create(Channel("client.replies"))
        await client.publish("client.replies", LoanRequest(1, 1.0, 1))
        lines = (await client.exposition()).splitlines()
    assert 'dragoman_client_published_total{channel="client.replies"} 1' in lines
    assert 'dragoman_client_published_total{channel="client.replies.*"} 0' in lines
