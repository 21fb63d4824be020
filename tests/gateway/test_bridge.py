"""One envelope over several protocols: from HTTP over brokers to an orchestrator, and back."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from dragoman import Client, ClientOptions, endpoint, record
from dragoman.adapters.memory import MemoryBroker
from dragoman.client.headers import EXPIRES_AT
from dragoman.client.options import EndpointOptions, RetryOptions
from dragoman.client.outcome import Outcome, again
from dragoman.core.broker import Broker
from dragoman.core.errors import BrokerUnavailable, ClientError, RemoteFailure, ReplyTimeout, RequestFailed
from dragoman.core.registry import Registry
from dragoman.gateway.bridge import bridge
from dragoman.gateway.envelope import (
    Datum,
    Envelope,
    collection,
    datum,
    failed,
    from_data,
    from_json,
    request,
    to_data,
    to_json,
)
from dragoman.gateway.gateway import Gateway
from dragoman.gateway.headers import HOPS
from dragoman.gateway.http.app import Application
from dragoman.gateway.orchestration import Call, on, orchestrator
from dragoman.gateway.policy import Policy, Rule
from dragoman.registry import connect
from tests.client.waiting import until
from tests.gateway.kit import options
from tests.gateway.test_drop_off import changed
from tests.gateway.test_http import JSON

CHAINS = [("memory", "embedded", "memory"), ("kafka", "rabbitmq", "mqtt")]
FIXTURES = {
    "kafka": "kafka_server",
    "redis": "redis_server",
    "rabbitmq": "rabbitmq_server",
    "mqtt": "mosquitto_server",
}


def url_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    if kind == "memory":
        return f"memory://{secrets.token_hex(8)}"
    if kind == "embedded":
        return f"embedded://{folder}/broker"
    url: str = request.getfixturevalue(FIXTURES[kind]).url
    return url


@asynccontextmanager
async def chained(
    urls: list[str], registry: Registry, resource: str, answers: str, last: object
) -> AsyncIterator[None]:
    """Requests go along the brokers to the last one, responses come back."""
    async with AsyncExitStack() as stack:
        near = ClientOptions(partitions=1, drain_timeout=5.0)
        plain = [await stack.enter_async_context(Client(url, registry, options=near)) for url in urls]
        for here, there in pairwise(plain):
            onward = bridge(resource, there, group=f"bridge-{resource}")
            back = bridge(answers, here, group=f"bridge-{answers}", counted=False)
            await stack.enter_async_context(Client(here.broker, registry, [onward], options=near))
            await stack.enter_async_context(Client(there.broker, registry, [back], options=near))
        await stack.enter_async_context(Client(plain[-1].broker, registry, [last], options=near))
        yield


@pytest.mark.parametrize("kinds", CHAINS, ids="-".join)
async def test_one_envelope_travels_unchanged(
    kinds: tuple[str, ...], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    tail = secrets.token_hex(4)
    resource, answers = f"service.shares.{tail}", f"service.collection.{tail}"
    seen: list[Envelope] = []

    @orchestrator(resource, collection_point=answers)
    class Far:
        @on("select")
        async def answer(self, envelope: Envelope) -> list[Datum]:
            seen.append(envelope)
            return envelope.data

    urls = [url_of(kind, request, tmp_path) for kind in kinds]
    registry = connect("memory://")
    policy = Policy((Rule(resource=resource, level="basic", hops=5),))
    gateway = Gateway(
        options(policy=policy, broker=urls[0], collection_point=answers, inside_secret=None, group=answers),
        registry=registry,
    )
    asked = posted(resource)
    async with gateway, chained(urls, registry, resource, answers, Far):
        web = httpx.AsyncClient(
            transport=httpx.ASGITransport(Application(gateway)), base_url="http://gateway"
        )
        async with web:
            dropped = await web.post("/drop-off", content=to_json(asked), headers=JSON)
            assert dropped.status_code == 202
            body = to_json(collection(asked, resource=answers))
            found = None
            async with asyncio.timeout(120):
                while found is None or found.status_code == 204:
                    found = await web.post("/collection?wait=10", content=body, headers=JSON)
    await registry.close()
    assert found.status_code == 200
    [arrived] = seen
    assert to_json(changed(arrived, "originator", original_token="")) == to_json(asked)
    assert to_json(from_json(found.content)) == found.content
    assert from_json(found.content).data == asked.data


def posted(resource: str, data: list[Datum] | None = None) -> Envelope:
    """With all that is hard to carry, if nothing else is given."""
    data = data or [
        datum("text", 'quotes " and \\ and \u2028, é, 漢字, 🦉, \x00\x1f'),
        datum("nested", [datum("a", "1", "<="), datum("b", [datum("", "")])]),
        datum("empty", []),
        datum("numbers", "0001.50"),
    ]
    return request(resource, "select", "movement", data, client_id="phone", security="1", ttl=300)


@pytest.mark.parametrize(
    ("headers", "travelled"), [({HOPS: "4"}, [3, 2]), ({}, [9, 8]), ({HOPS: "many"}, [1, 0])]
)
async def test_a_bridge_counts_hops_and_ends_what_goes_in_circles(
    headers: dict[str, str], travelled: list[int]
) -> None:
    urls = [f"memory://{secrets.token_hex(8)}" for _ in range(2)]
    registry = connect("memory://")
    async with (
        Client(urls[0], registry) as here,
        Client(urls[1], registry) as there,
        Client(here.broker, registry, [bridge("service.x", there)]),
        Client(there.broker, registry, [bridge("service.x", here)]),
    ):
        await here.publish("service.x", posted("service.x"), headers=headers)
        async with asyncio.timeout(60):
            while not ends(here, "service.x.dead") + ends(there, "service.x.dead"):
                await asyncio.sleep(0.01)
        assert [ends(here, "service.x"), ends(there, "service.x")] == travelled
    await registry.close()


async def test_while_the_other_broker_is_away_envelopes_wait_in_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dragoman.gateway.bridge.REST", 0.01)
    urls, failures = [f"memory://{secrets.token_hex(8)}" for _ in range(2)], iter(range(20))
    registry = connect("memory://")
    async with (
        Client(urls[0], registry) as here,
        Client(urls[1], registry) as there,
        Client(here.broker, registry, [bridge("service.x", there)]),
    ):
        await there.producer("service.x", Envelope)
        publish = there.broker.publish

        async def away(*arguments: object) -> object:
            if next(failures, None) is not None:
                raise BrokerUnavailable("away")
            return await publish(*arguments)

        there.broker.publish = away
        await here.publish("service.x", posted("service.x"))
        async with asyncio.timeout(60):
            while not ends(there, "service.x"):
                await asyncio.sleep(0.01)
        assert ends(there, "service.x") == 1
        assert ends(here, "service.x.dead") == 0
    await registry.close()


def ends(client: Client, channel: str) -> int:
    return sum(end for _, end in client.broker.log().partitions(channel).values())


@record
class Price:
    share: str
    close: float


@pytest.mark.parametrize("kinds", [("memory", "embedded", "memory"), ("redis", "kafka")], ids="-".join)
async def test_an_orchestrator_asks_another_one_behind_a_bridge(
    kinds: tuple[str, ...], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The inner answer comes to who asked for it, and the client gets the answer to its own request."""
    tail = secrets.token_hex(4)
    prices, compare, answers = f"prices.{tail}", f"compare.{tail}", f"collection.{tail}"
    hops: list[int] = []

    @orchestrator(prices, collection_point=answers)
    class Prices:
        @on("select", "price")
        async def price(self, wanted: Price, call: Call) -> Price:
            hops.append(call.hops)
            if wanted.share == "NONE":
                raise RequestFailed("There is no such share.", status="Not Found")
            return Price(wanted.share, wanted.close + 40)

    @orchestrator(compare, collection_point=answers)
    class Compare:
        @on("select")
        async def movement(self, wanted: Price, call: Call) -> Price:
            first, last = await call.join(
                *(call.ask(prices, "select", "price", Price(wanted.share, n), reply=Price) for n in (0, 4))
            )
            return Price(wanted.share, last.close - first.close)

    registry = connect("memory://")
    urls = [url_of(kind, request, tmp_path) for kind in kinds]
    policy = Policy((Rule(resource=compare, level="basic", hops=9), Rule(resource=prices, level="basic")))
    given = options(
        policy=policy, broker=urls[0], collection_point=answers, inside_secret=None, group=answers
    )
    async with (
        Gateway(given, registry=registry) as gateway,
        chained(urls, registry, prices, answers, Prices),
        Client(gateway.client.broker, registry, [Compare]),
    ):
        for share, data in (("ACME", Price("ACME", 4.0)), ("NONE", None)):
            asked = posted(compare, to_data(Price(share, 0.0)))
            await gateway.drop_off.accept(to_json(asked))
            found = await collected(gateway, asked, answers)
            assert found.client.source_endpoint == compare
            if data is None:
                assert failed(found) == ("Not Found", "There is no such share.")
            else:
                assert from_data(found.data, Price) == data
        direct = changed(posted(prices, to_data(Price("ACME", 1.0))), "destination", entity="price")
        await gateway.drop_off.accept(to_json(direct))
        found = await collected(gateway, direct, answers)
        assert from_data(found.data, Price) == Price("ACME", 41.0)
    bridges = len(kinds) - 1
    assert set(hops[:-1]) == {7 - bridges}
    assert gateway.audit.counts["held", ""] == 3
    assert gateway.audit.counts["poisoned", ""] == 0
    await registry.close()


async def collected(gateway: Gateway, asked: Envelope, answers: str) -> Envelope:
    async with asyncio.timeout(120):
        while True:
            body = to_json(collection(asked, resource=answers))
            found = await gateway.collection.collect(body, wait=10)
            if found is not None:
                return from_json(found)


async def test_a_bridge_gives_a_request_up_when_nobody_waits_for_its_answer() -> None:
    registry = connect("memory://")
    urls = [f"memory://{secrets.token_hex(8)}" for _ in range(2)]
    async with (
        Client(urls[0], registry) as here,
        Client(urls[1], registry) as there,
        Client(here.broker, registry, [bridge("service.x", there)]) as bridging,
    ):
        await there.producer("service.x", Envelope)
        with pytest.raises(ReplyTimeout):
            expires = {EXPIRES_AT: str(int((time.time() + 0.3) * 1000))}
            await here.request("service.x", posted("service.x"), reply=Envelope, timeout=0.3, headers=expires)
        await here.publish("service.x", posted("service.x"))
        async with asyncio.timeout(60):
            while bridging.in_flight or ends(there, "service.x") < 2:
                await asyncio.sleep(0.01)
        assert ends(here, "service.x.dead") == 0
    await registry.close()


@asynccontextmanager
async def two_brokers() -> AsyncIterator[tuple[Broker, Broker]]:
    """Which stay open when clients on them close."""
    async with AsyncExitStack() as stack:
        made = [MemoryBroker(f"memory://{secrets.token_hex(8)}") for _ in range(2)]
        for each in made:
            await each.connect()
            stack.push_async_callback(each.close)
        yield made[0], made[1]


@pytest.fixture
def given_back(monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """What bridges have given back to their own broker."""
    found: list[Outcome] = []

    def noted(delay: float) -> Outcome:
        found.append(again(delay))
        return found[-1]

    monkeypatch.setattr("dragoman.gateway.bridge.again", noted)
    monkeypatch.setattr("dragoman.gateway.bridge.REST", 0.001)
    return found


@pytest.mark.parametrize("partitions", [1, 3])
async def test_while_the_client_over_the_bridge_is_closed_envelopes_wait_here(
    partitions: int, given_back: list[Outcome]
) -> None:
    registry, count = connect("memory://"), 5
    async with two_brokers() as (near, far):
        options = ClientOptions(partitions=partitions)
        to = Client(far, registry, options=options)
        async with to:
            await to.producer("service.x", Envelope)
        async with (
            Client(near, registry, options=options) as here,
            Client(near, registry, [bridge("service.x", to)], options=options) as bridging,
        ):
            for number in range(count):
                await here.publish("service.x", posted("service.x"), key=f"{number}")
            # More often than a handler that fails is called before its message becomes a dead letter.
            await until(lambda: len(given_back) > 20 * count or bridging.metrics.of("service.x").dead)
            assert ends(here, "service.x.dead") == 0
            async with to:
                await until(lambda: ends(to, "service.x") >= count)
                assert ends(here, "service.x.dead") == 0
    await registry.close()


async def test_a_request_is_asked_again_if_the_client_over_the_bridge_closes_meanwhile(
    given_back: list[Outcome],
) -> None:
    registry, asked = connect("memory://"), asyncio.Event()

    @orchestrator("service.x")
    class Hanging:
        @on("select")
        async def hangs(self, envelope: Envelope) -> list[Datum]:
            asked.set()
            await asyncio.Event().wait()
            return []

    @orchestrator("service.x")
    class Answering:
        @on("select")
        async def answers(self, envelope: Envelope) -> list[Datum]:
            return [datum("said", "yes")]

    at_once = ClientOptions(drain_timeout=0.0)
    async with two_brokers() as (near, far):
        to = Client(far, registry)
        async with (
            Client(near, registry) as here,
            Client(near, registry, [bridge("service.x", to)]),
        ):
            async with to, Client(far, registry, [Hanging], options=at_once):
                answer = asyncio.create_task(
                    here.request("service.x", posted("service.x"), reply=Envelope, timeout=60)
                )
                await asked.wait()
            await until(lambda: given_back or answer.done())
            assert not answer.done()
            async with to, Client(far, registry, [Answering]):
                assert (await answer).data[-1] == datum("said", "yes")
            assert ends(here, "service.x.dead") == 0
    await registry.close()


@record
class NotToday(Exception):
    reason: str


async def test_an_error_that_is_the_answer_behind_a_bridge_is_not_asked_for_again() -> None:
    registry, calls = connect("memory://"), 0

    @endpoint("service.x", raises=[NotToday])
    async def refuses(envelope: Envelope) -> Envelope:
        nonlocal calls
        calls += 1
        raise NotToday("closed on Sundays")

    urls = [f"memory://{secrets.token_hex(8)}" for _ in range(2)]
    async with (
        Client(urls[0], registry) as here,
        Client(urls[1], registry, [refuses]) as there,
        Client(here.broker, registry, [bridge("service.x", there)]),
    ):
        with pytest.raises(RemoteFailure) as caught:
            await here.request("service.x", posted("service.x"), reply=Envelope, timeout=60)
        assert caught.value.where["error_code"] == "client.raised"
        assert calls == 1
        assert ends(here, "service.x.dead") == 1
    await registry.close()


async def test_a_request_that_ends_as_a_dead_letter_behind_a_bridge_is_told_to_who_asked() -> None:
    registry, calls = connect("memory://"), 0

    @orchestrator("service.x", options=EndpointOptions(retry=RetryOptions(attempts=1)))
    class Far:
        @on("select")
        async def fails(self, envelope: Envelope) -> list[Datum]:
            nonlocal calls
            calls += 1
            raise RuntimeError("secret")

    urls = [f"memory://{secrets.token_hex(8)}" for _ in range(2)]
    async with (
        Client(urls[0], registry) as here,
        Client(urls[1], registry, [Far]) as there,
        Client(here.broker, registry, [bridge("service.x", there)]),
    ):
        with pytest.raises(ClientError) as caught:
            await here.request("service.x", posted("service.x"), reply=Envelope, timeout=60)
        assert "secret" not in str(caught.value)
        assert calls == 1
        assert ends(there, "service.x.dead") == 1
    await registry.close()
