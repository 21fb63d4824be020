"""The headers that a model says its messages have are sent, and of their types."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Client, endpoint, record
from dragoman.adapters.memory import MemoryBroker
from dragoman.core.errors import EncodeError, StartupError
from dragoman.core.message import Message
from dragoman.language.generators.code import package
from dragoman.language.model import Model, load_model
from dragoman.language.parser import parse_strictly
from dragoman.language.running.headers import header_check, needs_id, to_be_given
from dragoman.schema.markers import Int

TEXT = """API description Shop
data type Order { "id": ID<int> }
data type Common { "tenant": ID<int>, "trace": MD<string>?, "urgent": D<bool>? }
channel Orders on path "orders" accepts message Placed expecting headers Common payload Order
channel Free on path "free" accepts message Anything expecting payload Order
channel Questions
  request message Ask on path "ask"
    expecting headers { "reply-to": MD<string>, "correlation-id": MD<string> } payload Order
  reply message Tell on path "tell" delivering REPLY payload Order
message endpoint Web uses channels: Orders, Free, Questions
message endpoint Store provides channels: Orders, Free, Questions
"""
GOOD = {"tenant": "7", "urgent": "true", "other": "anything"}


@record(namespace="Shop")
class Order:
    id: Int


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "shop.mdsl"
    file.write_text(TEXT.replace("REPLY", ""))
    return file


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        (None, "Placed has no header 'tenant'"),
        ({"trace": "x"}, "Placed has no header 'tenant'"),
        ({"tenant": "secret"}, "'tenant' of Placed is no int"),
        ({"tenant": str(2**31)}, "'tenant' of Placed is no int"),
        ({"tenant": "1_0"}, "'tenant' of Placed is no int"),
        ({"tenant": "1", "urgent": "maybe"}, "'urgent' of Placed is no bool"),
        ({"tenant": "1", "trace": b"\xff"}, "'trace' of Placed is no string"),
    ],
)
async def test_headers_that_are_not_the_models_are_not_sent(
    model: Path, headers: Any, said: str, tmp_path: Path
) -> None:
    database = f"sqlite://{tmp_path / 'app.db'}"
    async with Client("memory://headers", "memory://", model=model, as_="Web", database=database) as web:
        producer, outbox = await web.producer("orders", Order), await web.outbox("orders", Order)

        def write() -> None:
            with web.database.transaction() as tx:
                outbox.publish(tx, Order(1), headers=headers)

        for refused in (
            web.publish("orders", Order(1), headers=headers),
            web.publish_many("orders", [Order(1), Order(2)], headers=headers),
            web.publish_in_parts("orders", Order(1), headers=headers),
            producer.publish(Order(1), headers=headers),
        ):
            with pytest.raises(EncodeError, match=said) as raised:
                await refused
            assert raised.value.code == "message.header"
            assert f"{model}:4" in str(raised.value) and "secret" not in str(raised.value)
        with pytest.raises(EncodeError, match=said):
            write()
        assert web.metrics.of("orders").published == 0
        await web.publish("orders", Order(1), headers=GOOD)
        await web.publish_many("orders", [Order(1)], headers=GOOD)
        await web.publish("free", Order(1), headers=headers)


async def test_headers_that_the_client_writes_are_there(model: Path) -> None:
    @endpoint("ask")
    async def oracle(question: Order) -> Order:
        return question

    @endpoint("orders")
    async def store(order: Order) -> None: ...

    @endpoint("free")
    async def free(order: Order) -> None: ...

    functions = [oracle, store, free]
    async with (
        Client("memory://headers", "memory://", functions, model=model, as_="Store") as client,
        Client(client.broker, client.registry, model=model, as_="Web") as web,
    ):
        assert await web.request("ask", Order(3), reply=Order, timeout=60.0) == Order(3)
        with pytest.raises(EncodeError, match="Ask has no header"):
            await web.publish("ask", Order(3))


async def test_a_reply_cannot_have_headers_of_its_own(model: Path) -> None:
    model.write_text(TEXT.replace("REPLY", "headers Common"))
    with pytest.raises(
        StartupError, match="the model wants the header 'tenant', and a reply has none"
    ) as told:
        async with Client("memory://headers", "memory://", model=model, as_="Store"):
            pass
    assert f"{model}:9" in str(told.value)
    model.write_text(TEXT.replace("REPLY", 'headers { "correlation-id": MD<string>, "x": D<int>? }'))
    with pytest.raises(StartupError) as told:
        async with Client("memory://headers", "memory://", model=model, as_="Store"):
            pass
    assert "wants the header" not in str(told.value)


def test_generated_senders_take_the_headers_that_are_needed(model: Path) -> None:
    [web] = [each.text for each in package(load_model(model), "shop.mdsl") if each.path == "web.py"]
    assert "message: Order, headers: dict[str, str]) -> None:" in web
    assert "await client.publish(PLACED, message, headers=headers)" in web
    assert "await client.publish(ANYTHING, message)" in web
    assert "await client.request(ASK, message, reply=Order)" in web


LEAVES = {
    "int": st.integers(-(2**31), 2**31 - 1).map(str),
    "long": st.integers(-(2**63), 2**63 - 1).map(str),
    "double": st.floats(allow_nan=False, allow_infinity=False).map(str),
    "float": st.floats(allow_nan=False, allow_infinity=False, width=32).map(str),
    "bool": st.sampled_from(["true", "false", "True", "False"]),
    "string": st.text(st.characters(exclude_categories=["Cs"])),
}


@given(st.data(), st.sampled_from(sorted(LEAVES)), st.booleans())
def test_what_is_of_the_type_passes_and_rubbish_never_crashes(
    data: st.DataObject, basic: str, named: bool
) -> None:
    inner = f"D<{basic}>"
    text = f'API description A data type T {inner} data type H {{ "h": {"T" if named else inner} }} '
    text += 'channel C on path "c" accepts message M expecting headers H payload D<int>'
    model = Model(parse_strictly(text))
    [message] = model.channels["C"].messages
    check = header_check(model, message, "a.mdsl:1")
    assert check is not None and to_be_given(model, message) == ["h"]
    check((("h", data.draw(LEAVES[basic]).encode()),))
    try:
        check((("h", data.draw(st.binary())),))
    except EncodeError as error:
        assert error.code == "message.header"


@pytest.mark.parametrize("basic", ["int", "long", "float", "double"])
@pytest.mark.parametrize(
    "value",
    [
        "",
        "-",
        "1_0",
        " 7",
        "7 ",
        "7\n",
        "+7",
        "\u0667",
        "0x7",
        "7L",
        "1_0.0",
        "nan",
        "-inf",
        "Infinity",
        "1e999",
    ],
)
def test_numbers_that_other_languages_read_otherwise_are_refused(basic: str, value: str) -> None:
    with pytest.raises(EncodeError, match=f"is no {basic}"):
        checked(f"D<{basic}>", value.encode())


@pytest.mark.parametrize(
    ("basic", "value"),
    [
        ("int", "1.0"),
        ("long", "1e3"),
        ("float", "1e39"),
        ("float", ".5"),
        ("double", "5."),
        ("bool", "TRUE\n"),
    ],
)
def test_values_of_other_types_are_refused(basic: str, value: str) -> None:
    with pytest.raises(EncodeError, match=f"is no {basic}"):
        checked(f"D<{basic}>", value.encode())


def checked(inner: str, value: bytes) -> None:
    text = f'API description A data type H {{ "h": {inner} }} '
    text += 'channel C on path "c" accepts message M expecting headers H payload D<int>'
    model = Model(parse_strictly(text))
    check = header_check(model, model.channels["C"].messages[0], "a.mdsl:1")
    assert check is not None
    check((("h", value),))


NAMED = """API description Shop
data type Order { "id": ID<int> }
data type Named { "message-id": MD<string> }
channel Orders on path "orders" accepts message Placed expecting headers Named payload Order
channel Questions
  request message Ask on path "ask" expecting headers Named payload Order
  reply message Tell on path "tell" delivering headers Named payload Order
message endpoint Web uses channels: Orders, Questions
message endpoint Store provides channels: Orders, Questions
"""


@pytest.mark.parametrize("replay", [True, False], ids=["positions", "no-positions"])
async def test_message_ids_that_a_model_wants_are_written_by_the_client(
    replay: bool, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On brokers that need ids anyway, and on others; each way of sending, and replies."""
    model.write_text(NAMED)
    broker = MemoryBroker(f"memory://{tmp_path.name}{replay}")
    broker.capabilities = dataclasses.replace(broker.capabilities, replay=replay)
    await broker.connect()
    sent: list[Message] = []
    publish = broker.publish

    async def noted(messages: Sequence[Message], delay: float = 0.0) -> object:
        sent.extend(messages)
        return await publish(messages, delay)

    monkeypatch.setattr(broker, "publish", noted)

    @endpoint("ask")
    async def oracle(question: Order) -> Order:
        return question

    @endpoint("orders")
    async def store(order: Order) -> None: ...

    async with (
        Client(broker, "memory://", [oracle, store], model=model, as_="Store") as client,
        Client(broker, client.registry, model=model, as_="Web") as web,
    ):
        await web.publish("orders", Order(1))
        await web.publish_many("orders", [Order(2), Order(3)])
        await web.publish_many("orders", [Order(4), Order(5)], key=lambda order: order.id)
        await web.publish_in_parts("orders", Order(6))
        await web.publish("orders", Order(7), headers={"message-id": "mine"})
        assert await web.request("ask", Order(8), reply=Order, timeout=60.0) == Order(8)
    await broker.close()
    ids = [message.header("message-id") for message in sent]
    assert len(ids) == len(set(ids)) == 9 and None not in ids
    assert b"mine" in ids


def test_generated_senders_do_not_ask_for_message_ids(model: Path) -> None:
    model.write_text(NAMED)
    loaded = load_model(model)
    assert all(needs_id(loaded, each) for known in loaded.channels.values() for each in known.messages)
    [web] = [each.text for each in package(loaded, "shop.mdsl") if each.path == "web.py"]
    assert "headers" not in web
