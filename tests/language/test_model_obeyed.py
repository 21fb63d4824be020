"""What a model says about letters, guarantees, groups, replies and sequences holds at run time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Client, EndpointOptions, Headers, Message, RetryOptions, endpoint, record
from dragoman.adapters.memory import MemoryBroker
from dragoman.client.controller import bind
from dragoman.client.headers import EXPIRES_AT, SEQUENCE_ID
from dragoman.client.options import ClientOptions
from dragoman.core.errors import ConfigurationError, StartupError
from dragoman.language.model import Model
from dragoman.language.parser import parse_strictly
from dragoman.language.path import channel_name
from dragoman.language.running.conditions import Select
from dragoman.language.running.parameters import mistyped, values_in
from dragoman.language.running.role import open_role
from dragoman.schema.markers import Int, Name

PATIENCE = 60.0

TEXT = """API description Shop
data type Order { "id": ID<int> }
data type Answer { "id": ID<int> }
channel Orders of type POINT_TO_POINT delivery guarantee AT_LEAST_ONCE
  dead letters to Dead invalid messages to Invalid on path "orders"
  accepts message PlaceOrder expecting payload Order
channel Once delivery guarantee AT_MOST_ONCE on path "once"
  accepts message OnceOrder expecting payload Order
channel Exactly delivery guarantee EXACTLY_ONCE on path "exactly"
  accepts message ExactOrder expecting payload Order
channel Large on path "large"
  accepts message LargeOrder expecting payload Order where SEQUENCE_ID is "$message.header#/sequence-id"
channel Questions request message Ask on path "ask/${shop}" with shop: int expecting payload Order
  reply message Tell on path "tell/${shop}" with shop: int delivering payload Answer
    where CORRELATION_ID is "$message.payload#/id", MESSAGE_EXPIRES in 30s
channel News of type PUBLISH_SUBSCRIBE on path "news"
  produces message Happened delivering payload Order
channel Dead of type DEAD_LETTER on path "the/dead" produces message Buried delivering payload Order
channel Invalid of type INVALID_MESSAGE on path "the/invalid" produces message Unread delivering payload Order
message broker Rabbit exposes Shop at location "amqp://shop.example:5672" via protocol AMQP
message endpoint Web uses from Rabbit: Orders, Once, Exactly, Large, Questions
message endpoint Store provides channels: Orders
message endpoint Second provides channels: Orders
message endpoint Taker provides channels: Once
message endpoint Exact provides channels: Exactly
message endpoint Big provides channels: Large
message endpoint Oracle of type IDEMPOTENT_RECEIVER provides channels: Questions
message endpoint Reader of type DURABLE_SUBSCRIBER uses channels: News
message endpoint Polls of type POLLING_CONSUMER uses channels: News
message endpoint Undertaker uses channels: Dead, Invalid
"""


@record
class Order:
    id: Int


@record
class Answer:
    id: Int


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "shop.mdsl"
    file.write_text(TEXT)
    return file


def directed(model: Path, name: str, function: Any) -> Any:
    [found] = bind(function, ClientOptions()).endpoints
    return open_role(model, name).directed(found)


async def test_dead_letters_go_where_the_model_says_and_can_be_taken_there(model: Path) -> None:
    seen: asyncio.Queue[tuple[bytes, dict[str, bytes]]] = asyncio.Queue()

    @endpoint("orders", options=EndpointOptions(retry=RetryOptions(attempts=1)))
    async def store(order: Order) -> None:
        raise RuntimeError("no")

    @endpoint("the.dead")
    async def bury(letter: bytes, headers: Annotated[dict[str, bytes], Headers]) -> None:
        seen.put_nowait((letter, headers))

    @endpoint("the.invalid")
    async def unread(letter: bytes, headers: Annotated[dict[str, bytes], Headers]) -> None:
        seen.put_nowait((letter, headers))

    async with (
        Client("memory://letters", "memory://", [store], model=model, as_="Store") as client,
        Client(client.broker, client.registry, [bury, unread], model=model, as_="Undertaker"),
        Client(client.broker, client.registry, model=model, as_="Web") as web,
    ):
        await web.publish("orders", Order(7))
        letter, headers = await asyncio.wait_for(seen.get(), PATIENCE)
        assert headers["dragoman-original-channel"] == b"orders"
        await client.broker.publish([Message("orders", b"no frame")])
        letter, headers = await asyncio.wait_for(seen.get(), PATIENCE)
        assert letter == b"no frame"


async def test_who_receives_from_point_to_point_shares_whatever_groups_the_code_has(model: Path) -> None:
    handled: list[int] = []
    done = asyncio.Event()

    def take(order: Order) -> None:
        handled.append(order.id)
        if len(handled) >= 20:
            done.set()

    @endpoint("orders", group="one")
    async def first(order: Order) -> None:
        take(order)

    @endpoint("orders", group="two")
    async def second(order: Order) -> None:
        take(order)

    async with (
        Client("memory://shared", "memory://", [first], model=model, as_="Store") as client,
        Client(client.broker, client.registry, [second], model=model, as_="Second"),
        Client(client.broker, client.registry, model=model, as_="Web") as web,
    ):
        for number in range(20):
            await web.publish("orders", Order(number), key=str(number))
        await asyncio.wait_for(done.wait(), PATIENCE)
    assert sorted(handled) == list(range(20))


async def test_replies_go_to_the_models_path_correlated_and_with_an_expiry(model: Path) -> None:
    @endpoint("ask.7")
    async def oracle(question: Order) -> Answer:
        return Answer(question.id)

    found = directed(model, "Oracle", oracle)
    assert found.reply_to == "tell.7"
    assert str(found.correlation) == "$message.payload#/id"
    assert found.reply_expires_in == 30.0
    assert [type(each).__name__ for each in found.middleware] == ["Deduplicate"]
    told: asyncio.Queue[dict[str, bytes]] = asyncio.Queue()

    @endpoint("tell.7", group="listener")
    async def listen(answer: Answer, headers: Annotated[dict[str, bytes], Headers]) -> None:
        told.put_nowait(headers)

    async with (
        Client("memory://replies", "memory://", [oracle], model=model, as_="Oracle") as client,
        Client(client.broker, client.registry, [listen]) as plain,
        Client(client.broker, client.registry, model=model, as_="Web") as web,
    ):
        await plain.publish("ask.7", Order(5))
        headers = await asyncio.wait_for(told.get(), PATIENCE)
        assert headers["correlation-id"] == b"5"
        assert EXPIRES_AT in headers
        assert (await web.request("ask.7", Order(6), reply=Answer, timeout=PATIENCE)).id == 6


async def test_a_reply_elsewhere_disagrees(model: Path) -> None:
    @endpoint("ask.7", reply_to="tell.8")
    async def oracle(question: Order) -> Answer:
        return Answer(question.id)

    with pytest.raises(StartupError, match=r"replies to 'tell.8', the model says 'tell.7'"):
        async with Client("memory://no", "memory://", [oracle], model=model, as_="Oracle"):
            pass


def test_at_most_once_is_one_attempt_and_one_delivery(model: Path) -> None:
    @endpoint("once")
    async def taker(order: Order) -> None: ...

    options = directed(model, "Taker", taker).options
    assert (options.deliveries, options.retry.attempts, options.later) == (1, 1, None)


async def test_exactly_once_needs_an_endpoint_that_can(model: Path) -> None:
    @endpoint("exactly")
    async def exact(order: Order) -> None: ...

    with pytest.raises(StartupError, match="the model wants EXACTLY_ONCE") as caught:
        async with Client("memory://no", "memory://", [exact], model=model, as_="Exact"):
            pass
    assert f"{model}:9" in str(caught.value)


async def test_what_the_model_has_as_a_sequence_is_sent_as_one(model: Path) -> None:
    seen: asyncio.Queue[tuple[int, dict[str, bytes]]] = asyncio.Queue()

    @endpoint("large")
    async def big(order: Order, headers: Annotated[dict[str, bytes], Headers]) -> None:
        seen.put_nowait((order.id, headers))

    async with (
        Client("memory://large", "memory://", [big], model=model, as_="Big") as client,
        Client(client.broker, client.registry, model=model, as_="Web") as web,
    ):
        await web.publish("large", Order(3))
        number, _ = await asyncio.wait_for(seen.get(), PATIENCE)
        assert number == 3
        log = client.broker.log()
        names = []
        for partition, (start, end) in log.partitions("large").items():
            if end > start:
                names.append(SEQUENCE_ID.encode() in bytes(log.read("large", partition, start, end).headers))
        assert names == [True]


def test_subscriptions_are_durable_where_the_model_says(model: Path) -> None:
    @endpoint("news", durable=False)
    async def reader(order: Order) -> None: ...

    assert directed(model, "Reader", reader).options.durable is True


async def test_a_polling_consumer_needs_no_handler(model: Path) -> None:
    async with Client("memory://polls", "memory://", model=model, as_="Polls") as client:
        with pytest.raises(ConfigurationError, match="does not send to 'news'"):
            await client.publish("news", Order(1))


def test_the_broker_is_where_the_model_says_it_is(model: Path) -> None:
    assert open_role(model, "Web").broker() == "rabbitmq://shop.example:5672"


MORE = """API description Fleet
data type Order { "id": ID<int>, "class": D<string> }
data type Address { "reply-to": MD<string>, "answer": MD<string> }
channel Orders dead letters to Dead on path "shops/${shop}/orders/${year}/${shop}"
  with shop: int, year: int
  accepts message PlaceOrder expecting payload Order
channel Dead of type DEAD_LETTER on path "dead/${year}/${shop}" with year: int, shop: int
  produces message Buried delivering payload Order
channel News on path "news/${kind}" with kind: string produces message Any delivering payload Order
channel Late on path "news/late" produces message LateNews delivering payload Order
channel Asks request message Ask on path "ask" expecting headers Address payload Order
    where RETURN_ADDRESS is "$message.header#/POINTED"
  reply message Tell on path "tell" delivering payload Order
message broker Kafka exposes Orders, Asks at location "kafka-secure://k:9093" via protocol Kafka
message broker Rabbit exposes News, Late at location "amqps://r/shop?heartbeat=5" via protocol AMQP
message broker Both exposes Late at location "mqtts://m" via protocol MQTT
  exposes Late at location "stomp://s" via protocol STOMP
message endpoint Store provides channels: Orders
message endpoint Reader uses channels: News, Late
message endpoint Late uses from Both: Late via protocol MQTT
message endpoint Stomper uses from Both: Late via protocol STOMP
message endpoint Torn uses channels: Orders, News
message endpoint Asker uses channels: Asks where consumed if "$message.payload#/id" > 3
message endpoint Teller provides channels: Asks
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    file = tmp_path / "fleet.mdsl"
    file.write_text(MORE.replace("POINTED", "reply-to"))
    return file


def test_letters_go_to_the_channel_with_the_same_parameters(fleet: Path) -> None:
    @endpoint("shops.7.orders.2026.7")
    async def store(order: bytes) -> None: ...

    assert directed(fleet, "Store", store).options.dead_letter == "dead.2026.7"
    assert open_role(fleet, "Store").receiving("shops.7.orders.2026.8") is None


@pytest.mark.parametrize(
    ("path", "name"), [("{shop}0", "70"), ("{shop}-{year}", "7-2026"), ("0{shop}1", "071")]
)
def test_a_parameter_ends_where_the_path_goes_on(path: str, name: str) -> None:
    text = f'API description A channel C on path "{path}" produces message M delivering payload D<int>'
    [message] = Model(parse_strictly(text)).channels["C"].messages
    expected = {"shop": "7", "year": "2026"} if "year" in path else {"shop": "7"}
    assert values_in(message.path, name) == expected


def test_a_name_of_its_own_goes_before_a_parameter(fleet: Path) -> None:
    role = open_role(fleet, "Reader")
    late, other = role.receiving("news.late"), role.receiving("news.early")
    assert late is not None and late.message.name.text == "LateNews"
    assert other is not None and other.message.name.text == "Any"


def test_the_broker_has_all_channels_by_the_protocol_of_their_use_and_keeps_tls(fleet: Path) -> None:
    assert open_role(fleet, "Store").broker() == "kafka://k:9093?security.protocol=SSL"
    assert open_role(fleet, "Reader").broker() == "rabbitmq://r/shop?heartbeat=5&tls=true"
    assert open_role(fleet, "Late").broker() == "mqtt://m?tls=true"
    for name, protocols in (("Torn", "AMQP, Kafka"), ("Stomper", "STOMP")):
        with pytest.raises(ConfigurationError, match=f"Their protocols: {protocols}"):
            open_role(fleet, name).broker()


async def test_a_broker_that_is_given_goes_before_those_of_the_model(fleet: Path) -> None:
    async def read(order: bytes) -> None: ...

    handlers = [endpoint("news.other")(read)]
    async with Client("memory://torn", "memory://", handlers, model=fleet, as_="Torn") as client:
        assert client.broker.url == "memory://torn"


async def test_payloads_written_in_place_are_compared_and_only_records_can_be(tmp_path: Path) -> None:
    file = tmp_path / "place.mdsl"
    file.write_text(
        'API description S data type Order { "Order": D<string>, "next": Order? } '
        'channel C on path "c" accepts message M expecting payload { "id": ID<int> } '
        'channel D on path "d" accepts message N expecting payload Order '
        "message endpoint Store provides channels: C, D"
    )

    @record
    class Linked:
        Order: str
        next: Linked | None = None

    @endpoint("c")
    async def wrong(order: Linked) -> None: ...

    @endpoint("c")
    async def right(order: Order) -> None: ...

    @endpoint("d")
    async def linked(order: Linked) -> None: ...

    @endpoint("d")
    async def plain(order: dict[str, Any]) -> None: ...

    def told(*functions: Any) -> list[str]:
        bound = [each for one in functions for each in bind(one, ClientOptions()).endpoints]
        return [*open_role(file, "Store").disagreements(bound, MemoryBroker.capabilities)]

    assert told(right, linked, plain) == []
    assert "Linked is not the payload of the model" in told(wrong)[0]


def test_what_no_client_does_is_told(fleet: Path) -> None:
    assert [*open_role(fleet, "Teller").unhandled([])] != []
    told = [*open_role(fleet, "Asker").unhandled([])]
    assert len(told) == 1 and "Tell: a reply is for who asked" in told[0] and f"{fleet}:" in told[0]
    fleet.write_text(MORE.replace("POINTED", "answer"))
    told = [*open_role(fleet, "Teller").unhandled([])]
    assert "Ask: the return address is '$message.header#/answer'" in told[0]


async def test_batches_are_selected_message_by_message(tmp_path: Path) -> None:
    file = tmp_path / "select.mdsl"
    file.write_text(
        'API description S data type Order { "id": ID<int> } channel C on path "c" accepts message M '
        "expecting payload Order message endpoint Web uses channels: C message endpoint Store provides "
        'channels: C where consumed if "$message.payload#/id" >= 5'
    )
    seen: asyncio.Queue[int] = asyncio.Queue()

    @endpoint("c", options=EndpointOptions(batch_size=10, batch_wait=0.2))
    async def store(orders: list[Order]) -> None:
        for order in orders:
            seen.put_nowait(order.id)

    async with (
        Client("memory://batches", "memory://", model=file, as_="Web") as web,
        Client(web.broker, web.registry, [store], model=file, as_="Store"),
    ):
        for number in range(10):
            await web.publish("c", Order(number), key="one")
        found = [await asyncio.wait_for(seen.get(), PATIENCE) for _ in range(5)]
    assert found == [5, 6, 7, 8, 9] and seen.empty()


def test_conditions_use_the_names_of_the_schema(tmp_path: Path) -> None:
    file = tmp_path / "select.mdsl"
    file.write_text(
        'API description S data type T { "class": D<string>, "of": { "a": D<int> }*, "urgent": D<bool> } '
        'channel C on path "c" '
        "accepts message M expecting payload T message endpoint Store provides channels: C where "
        'consumed if "$message.payload#/class" == "A", consumed if "$message.payload#/of/1/a" > 1, '
        'consumed if "$message.header#/urgent" == "$message.payload#/urgent"'
    )

    @record
    class Part:
        a: Int

    @record
    class Thing:
        class_: Annotated[str, Name("class")]
        of: list[Part]
        urgent: bool = True

    received = open_role(file, "Store").receiving("c")
    assert received is not None
    select = Select(received.use.conditions)
    urgent = Message("c", b"", headers=(("urgent", b"true"),))
    assert select.wants(urgent, Thing("A", [Part(0), Part(2)]))
    assert select.wants(urgent, {"class": "A", "of": [{"a": 0}, {"a": 2}], "urgent": True})
    assert not select.wants(urgent, Thing("A", [Part(2)]))
    assert not select.wants(urgent, Thing("B", [Part(0), Part(2)]))
    assert not select.wants(Message("c", b""), Thing("A", [Part(0), Part(2)]))


def test_a_model_and_a_name_belong_together(model: Path) -> None:
    with pytest.raises(ConfigurationError, match="Give both"):
        Client(model=model)
    with pytest.raises(ConfigurationError, match="Give both"):
        Client(as_="Web")


GUARANTEED = """API description Kept
data type Order { "id": ID<int> }
channel Orders of type POINT_TO_POINT, GUARANTEED_DELIVERY delivery guarantee AT_LEAST_ONCE
  on path "orders" accepts message PlaceOrder expecting payload Order
channel News of type PUBLISH_SUBSCRIBE on path "news" produces message Happened delivering payload Order
message endpoint Web uses channels: Orders
message endpoint Store DURABLE provides channels: Orders
message endpoint Reader uses channels: News
message endpoint Writer provides channels: News
"""


@pytest.fixture
def guaranteed(tmp_path: Path) -> Path:
    file = tmp_path / "kept.mdsl"
    file.write_text(GUARANTEED.replace("DURABLE", ""))
    return file


@pytest.mark.parametrize("name", ["Web", "Store"])
async def test_a_broker_that_forgets_cannot_guarantee_delivery(
    guaranteed: Path, tmp_path: Path, name: str
) -> None:
    @endpoint("orders")
    async def store(order: Order) -> None: ...

    functions = [store] if name == "Store" else []
    with pytest.raises(StartupError, match="GUARANTEED_DELIVERY of 'Orders' cannot be kept") as caught:
        async with Client("memory://kept", "memory://", functions, model=guaranteed, as_=name):
            pass
    assert f"{guaranteed}:3" in str(caught.value) and "embedded://" in str(caught.value)
    durable = f"embedded://{tmp_path / 'data'}"
    async with Client(durable, "memory://", functions, model=guaranteed, as_=name):
        pass


async def test_channels_without_that_guarantee_may_be_anywhere(guaranteed: Path) -> None:
    for name in ("Writer", "Reader"):

        @endpoint("news", durable=False)
        async def read(order: Order) -> None: ...

        functions = [read] if name == "Reader" else []
        async with Client("memory://kept", "memory://", functions, model=guaranteed, as_=name):
            pass


async def test_a_group_that_is_forgotten_cannot_guarantee_delivery(guaranteed: Path, tmp_path: Path) -> None:
    @endpoint("orders", durable=False)
    async def store(order: Order) -> None: ...

    durable = f"embedded://{tmp_path / 'data'}"
    with pytest.raises(StartupError, match="leave durable=False out"):
        async with Client(durable, "memory://", [store], model=guaranteed, as_="Store"):
            pass
    guaranteed.write_text(GUARANTEED.replace("DURABLE", "of type DURABLE_SUBSCRIBER"))
    async with Client(durable, "memory://", [store], model=guaranteed, as_="Store"):
        pass


async def test_a_value_that_is_not_of_its_parameters_type_is_refused(model: Path) -> None:
    @endpoint("ask.shop")
    async def oracle(question: Order) -> Answer:
        return Answer(question.id)

    with pytest.raises(StartupError, match="'shop' is no int, which the parameter 'shop' is"):
        async with Client("memory://no", "memory://", [oracle], model=model, as_="Oracle"):
            pass
    async with Client("memory://no", "memory://", model=model, as_="Web") as web:
        with pytest.raises(ConfigurationError, match=r"'shop' is no int.*Give the parameter a value"):
            await web.publish("ask.shop", Order(1))
        assert "ask.shop" not in await web.broker.channels()


@given(st.integers(), st.booleans(), st.from_regex(r"[A-Za-z0-9_-]+", fullmatch=True))
def test_values_come_out_of_a_name_as_they_went_in(number: int, truth: bool, text: str) -> None:
    model = Model(
        parse_strictly(
            'API description A channel C on path "a/${n}/${b}/${t}" with n: long, b: bool, t: string '
            "accepts message M expecting payload D<int>"
        )
    )
    [message] = model.channels["C"].messages
    given = {"n": str(number), "b": str(truth), "t": text}
    name = channel_name(message.path, given)
    assert values_in(message.path, name) == given
    assert mistyped(message.path, name) == []
    swapped = channel_name(message.path, given | {"n": "x" + text})
    assert values_in(message.path, swapped) == {}
    assert len(mistyped(message.path, swapped)) == 1
