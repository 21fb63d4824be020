"""Traces go on through brokers, and numbers come out as Prometheus reads them."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from dragoman import Client, ClientOptions, EndpointOptions, RetryOptions, endpoint
from dragoman.adapters.memory import MemoryBroker
from dragoman.client.histogram import BOUNDS, Histogram
from dragoman.core.registry import Registry
from tests.client.conftest import payloads
from tests.client.loans import LoanReply, LoanRequest
from tests.client.waiting import until

ONCE = EndpointOptions(retry=RetryOptions(attempts=1))
TRACED = ClientOptions(tracing=True)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", lambda name: provider.get_tracer(name))
    yield exporter
    provider.shutdown()


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


async def test_a_trace_goes_from_the_request_to_its_reply(
    memory: MemoryBroker, registry: Registry, spans: InMemorySpanExporter
) -> None:
    @endpoint("loans", group="bank")
    async def on_request(request: LoanRequest) -> LoanReply:
        return LoanReply(request.request_id, 1.0)

    async with Client(memory, registry, [on_request], options=TRACED) as client:
        await client.request("loans", LoanRequest(1, 1.0, 1), reply=LoanReply)
    found = by_name(spans)
    sent, handled = found["publish loans"], found["process loans"]
    reply = found["reply loans"]
    assert len({span.context.trace_id for span in (sent, handled, reply)}) == 1
    assert handled.parent is not None
    assert handled.parent.span_id == sent.context.span_id
    assert reply.parent is not None
    assert reply.parent.span_id == handled.context.span_id
    about = dict(handled.attributes or {})
    assert about["messaging.consumer.group.name"] == "bank"
    assert about["dragoman.contract"] == "loans-value"
    assert about["messaging.system"] == "memory"


async def test_a_dead_letter_carries_the_trace_of_its_failure(
    memory: MemoryBroker, registry: Registry, spans: InMemorySpanExporter
) -> None:
    @endpoint("loans", options=EndpointOptions(retry=RetryOptions(attempts=2, delay=0.0)))
    async def on_request(request: LoanRequest) -> None:
        raise ValueError("secret 4711")

    async with Client(memory, registry, [on_request], options=TRACED) as client:
        await client.publish("loans", LoanRequest(1, 1.0, 1))
        await until(lambda: client.metrics.of("loans").dead)
    handled, buried = by_name(spans)["process loans"], by_name(spans)["publish loans.dead"]
    assert handled.status.status_code is trace.StatusCode.ERROR
    assert [event.name for event in handled.events] == ["attempt failed"] * 2
    assert buried.context.trace_id == handled.context.trace_id
    [letter] = payloads(memory, "loans.dead")
    assert format(buried.context.span_id, "016x") in letter.header("traceparent").decode()
    assert "4711" not in str([span.to_json() for span in spans.get_finished_spans()])


async def test_a_handler_that_works_in_the_end_has_not_failed(
    memory: MemoryBroker, registry: Registry, spans: InMemorySpanExporter
) -> None:
    calls: list[int] = []

    @endpoint("loans", options=EndpointOptions(retry=RetryOptions(attempts=2, delay=0.0)))
    async def on_request(request: LoanRequest) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError

    async with Client(memory, registry, [on_request], options=TRACED) as client:
        await client.publish("loans", LoanRequest(1, 1.0, 1))
        await until(lambda: client.metrics.of("loans").handled)
    handled = by_name(spans)["process loans"]
    assert handled.status.status_code is trace.StatusCode.UNSET
    assert len(handled.events) == 1


async def test_a_batch_knows_the_traces_of_all_its_messages(
    memory: MemoryBroker, registry: Registry, spans: InMemorySpanExporter
) -> None:
    got: list[LoanRequest] = []

    @endpoint("loans", options=EndpointOptions(batch_size=3, batch_wait=60.0))
    async def on_requests(requests: list[LoanRequest]) -> None:
        got.extend(requests)

    async with Client(memory, registry, [on_requests], options=TRACED) as client:
        for number in range(3):
            await client.publish("loans", LoanRequest(number, 1.0, 1), partition=0)
        await until(lambda: client.metrics.of("loans").handled == 3)
    sent = [span for span in spans.get_finished_spans() if span.name == "publish loans"]
    handled = by_name(spans)["process loans"]
    assert handled.parent is not None
    known = [handled.parent.span_id, *(link.context.span_id for link in handled.links)]
    assert known == [span.context.span_id for span in sent]


async def test_without_tracing_no_header_is_added(memory: MemoryBroker, registry: Registry) -> None:
    async with Client(memory, registry) as client:
        await client.publish("loans", LoanRequest(1, 1.0, 1))
    assert payloads(memory, "loans")[0].headers == ()


def test_a_client_without_tracing_does_not_load_it() -> None:
    program = (
        "import asyncio, sys\n"
        "from dragoman import Client\n"
        "async def main():\n"
        "    async with Client('memory://', 'memory://') as client:\n"
        "        await client.exposition()\n"
        "asyncio.run(main())\n"
        "unwanted = ('opentelemetry', 'prometheus_client')\n"
        "print([name for name in sys.modules if name.split('.')[0] in unwanted])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


async def test_the_numbers_come_out_as_prometheus_reads_them(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("loans", group='the "bank"', options=ONCE)
    async def on_request(request: LoanRequest) -> None:
        if request.request_id == 3:
            raise ValueError

    async with Client(memory, registry, [on_request]) as client:
        await client.publish_many("loans", [LoanRequest(n, 1.0, 1) for n in range(10)])
        counters = client.metrics.of("loans")
        await until(lambda: counters.handled == 9 and counters.dead == 1 and not client.in_flight)
        text = await client.exposition()
    families = {each.name: each for each in text_string_to_metric_families(text)}
    samples = {
        (sample.name, sample.labels.get("channel"), sample.labels.get("le")): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert samples["dragoman_client_handled_total", "loans", None] == 9
    assert samples["dragoman_client_dead_total", "loans", None] == 1
    assert samples["dragoman_client_published_total", "loans", None] == 10
    assert samples["dragoman_client_handling_seconds_count", "loans", None] == 10
    assert samples["dragoman_client_handling_seconds_bucket", "loans", "+Inf"] == 10
    assert families["dragoman_client_lag"].samples[0].labels["group"] == 'the "bank"'
    assert sum(sample.value for sample in families["dragoman_client_in_flight"].samples) == 0


async def test_replies_are_counted_without_the_names_of_their_channels(
    memory: MemoryBroker, registry: Registry
) -> None:
    @endpoint("loans")
    async def on_request(request: LoanRequest) -> LoanReply:
        return LoanReply(request.request_id, 3.4)

    async with Client(memory, registry, [on_request]) as client:
        await client.request("loans", LoanRequest(1, 1.0, 1), reply=LoanReply)
        client.metrics.replies.late = 2
        lines = (await client.exposition()).splitlines()
    assert 'dragoman_client_received_total{channel="client.replies.*"} 1' in lines
    assert 'dragoman_client_handled_total{channel="client.replies.*"} 1' in lines
    assert 'dragoman_client_late_total{channel="client.replies.*"} 2' in lines


def test_a_histogram_counts_by_size() -> None:
    histogram = Histogram()
    for seconds in (0.0, BOUNDS[0], BOUNDS[1], 1e9):
        histogram.observe(seconds)
    counts = dict(histogram.cumulative())
    assert (counts[BOUNDS[0]], counts[BOUNDS[1]], counts[BOUNDS[-1]], counts[float("inf")]) == (2, 3, 3, 4)
    assert histogram.count == 4


async def test_logs_name_the_place_and_never_the_payload(
    memory: MemoryBroker, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    @endpoint("loans", group="bank", options=ONCE)
    async def on_request(request: LoanRequest) -> None:
        raise ValueError

    caplog.set_level(logging.DEBUG, "dragoman.client")
    async with Client(memory, registry, [on_request]) as client:
        await client.publish("loans", LoanRequest(1, 1.0, 1, note="my secret"))
        await until(lambda: client.metrics.of("loans").dead)
    [logged] = [each for each in caplog.records if "dead letter" in each.getMessage()]
    for name, value in {"channel": "loans", "group": "bank", "contract": "loans-value"}.items():
        assert logged.__dict__[name] == value
    assert "my secret" not in str([each.__dict__ for each in caplog.records])
