"""A client that obeys a model: it selects, expires, sends only where it may, and refuses other code."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman import Client, controller, endpoint, record
from dragoman.client.headers import EXPIRES_AT
from dragoman.client.history import messages_of
from dragoman.core.errors import ConfigurationError, NotFound, StartupError
from dragoman.core.message import Message
from dragoman.language.model import load_model
from dragoman.language.running.conditions import Select
from dragoman.language.running.role import Role
from dragoman.schema.markers import Double, Int

TEXT = """API description Shop
data type Order { "id": ID<int>, "total": D<double>, "note": D<string>? }
data type Answer { "id": ID<int> }
channel Orders on path "shops/${shop}/orders" with shop: int
  accepts message PlaceOrder expecting payload Order where MESSAGE_EXPIRES in 5m
channel Questions request message Ask on path "ask" expecting payload Answer
  reply message Tell on path "tell" delivering payload Answer
message endpoint Web uses channels: Orders, Questions
message endpoint Store provides channels: Orders where consumed if "$message.payload#/total" >= 100
message endpoint Oracle provides channels: Questions
"""


@record
class Order:
    id: Int
    total: Double
    note: str | None = None


@record
class Answer:
    id: Int


@record
class Wrong:
    id: Int
    price: Double


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "shop.mdsl"
    file.write_text(TEXT)
    return file


async def test_only_messages_that_meet_the_condition_are_handled(model: Path) -> None:
    handled: asyncio.Queue[Order] = asyncio.Queue()
    seen: list[bytes | None] = []

    @endpoint("shops.7.orders", group="store")
    async def store(order: Order) -> None:
        handled.put_nowait(order)

    broker, registry = "memory://obedient", "memory://"
    async with Client(broker, registry, [store], model=model, as_="Store") as client:
        async with Client(client.broker, client.registry, model=model, as_="Web") as web:
            for total in (50.0, 99.9, 100.0):
                await web.publish("shops.7.orders", Order(1, total))
        assert (await asyncio.wait_for(handled.get(), 60)).total == 100.0
        log = client.broker.log()
        for partition, (start, end) in log.partitions("shops.7.orders").items():
            if end > start:
                slice = log.read("shops.7.orders", partition, start, end)
                seen += [m.header(EXPIRES_AT) for m in messages_of(slice, "shops.7.orders", partition)]
    assert handled.empty() and len(seen) == 3 and None not in seen


async def test_code_that_disagrees_fails_at_start_up_with_its_place(model: Path) -> None:
    @controller(group="store")
    class Store:
        @endpoint("shops.7.orders")
        async def on_order(self, order: Wrong) -> None: ...

        @endpoint("elsewhere")
        async def on_other(self, order: Order) -> None: ...

    with pytest.raises(StartupError) as raised:
        async with Client("memory://no", "memory://", [Store], model=model, as_="Store"):
            pass
    told = str(raised.value)
    assert "Wrong is not the payload of the model" in told and f"{model}:5" in told
    assert f"Store does not receive from 'elsewhere' ({model}:9)" in told


async def test_a_message_that_nothing_handles_is_told(model: Path) -> None:
    with pytest.raises(StartupError, match="Store receives 'PlaceOrder', and nothing handles it"):
        async with Client("memory://no", "memory://", model=model, as_="Store"):
            pass


async def test_an_endpoint_that_should_reply_must(model: Path) -> None:
    @endpoint("ask", group="oracle")
    async def silent(question: Answer) -> None: ...

    with pytest.raises(StartupError, match="it returns nothing, the model wants 'Tell'"):
        async with Client("memory://no", "memory://", [silent], model=model, as_="Oracle"):
            pass


async def test_nothing_is_sent_where_the_model_does_not_let(model: Path) -> None:
    async with Client("memory://web", "memory://", model=model, as_="Web") as web:
        with pytest.raises(ConfigurationError, match="Web does not send to 'secrets'"):
            await web.publish("secrets", Order(1, 1.0))


async def test_requests_are_answered_between_two_endpoints_of_a_model(model: Path) -> None:
    @endpoint("ask", reply_to="tell", group="oracle")
    async def oracle(question: Answer) -> Answer:
        return Answer(question.id + 1)

    async with Client("memory://ask", "memory://", [oracle], model=model, as_="Oracle") as provider:
        async with Client(provider.broker, provider.registry, model=model, as_="Web") as web:
            assert (await web.request("ask", Answer(41), reply=Answer, timeout=60.0)).id == 42
        assert isinstance(provider, Client)


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ('"$message.payload#/total" >= 100', True),
        ('"$message.payload#/total" < 100', False),
        ('"$message.payload#/note" == "express"', True),
        ('"$message.payload#/note" != "$message.header#/kind"', False),
        ('"$message.header#/weight" > 9', True),
        ('"$message.header#/kind" > 9', False),
        ('"$message.header#/nothing" == "x"', False),
        ('"$message.payload#/total" == "100"', False),
    ],
)
def test_conditions_look_into_payload_and_headers(model: Path, condition: str, wanted: bool) -> None:
    model.write_text(TEXT.replace('"$message.payload#/total" >= 100', condition))
    received = Role(load_model(model), "Store").receiving("shops.1.orders")
    assert received is not None
    message = Message("shops.1.orders", b"", headers=(("kind", b"express"), ("weight", b"10")))
    assert Select(received.use.conditions).wants(message, Order(1, 100.0, "express")) is wanted


def test_an_unknown_endpoint_is_told(model: Path) -> None:
    with pytest.raises(NotFound, match="It has: Web, Store, Oracle"):
        Client(model=model, as_="Nobody")
