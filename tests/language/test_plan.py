"""The model runs: plan and apply over a broker and a registry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from dragoman.adapters.kafka import KafkaBroker
from dragoman.adapters.memory import MemoryBroker
from dragoman.cli.model import app
from dragoman.core.broker import Broker
from dragoman.core.channel import Channel
from dragoman.core.errors import ConfigurationError, IncompatibleSchema
from dragoman.core.registry import Registry
from dragoman.language.model import Model, load_model
from dragoman.language.parser import parse_strictly
from dragoman.language.running.announced import differences
from dragoman.language.running.places import is_at
from dragoman.language.running.plan import Action, Plan, apply, plan
from dragoman.registry import connect
from dragoman.topology.endpoint import endpoint_of
from tests.services.kafka import Kafka

LOANS = Path(__file__).parents[2] / "examples" / "models" / "loan-broker.mdsl"
SHOP = """API description Shop
data type Order { "id": ID<int>FIELDS }
channel Orders on path "shop/${id}/orders" with id: int
  accepts message PlaceOrder expecting payload Order
  bindings for Kafka { "partitions": 3, "topicConfiguration": { "retention.ms": 60000 } }
channel Notes on path "notes" produces message Note
  delivering payload { "text": D<string> } structured as JSON_SCHEMA
message endpoint Web uses channels: Orders
message endpoint Store provides channels: Orders
"""


def shop(fields: str = "") -> Model:
    return Model(parse_strictly(SHOP.replace("FIELDS", fields)))


@pytest.fixture
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[MemoryBroker]:
    broker = MemoryBroker(f"memory://plan-{id(request)}")
    await broker.connect()
    yield broker
    await broker.close()


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    registry = connect("memory://")
    yield registry
    await registry.close()


async def test_a_new_system_is_planned_applied_and_then_in_order(
    broker: MemoryBroker, registry: Registry
) -> None:
    model = load_model(LOANS)
    first = await plan(model, registry, broker)
    assert {each.action for each in first.changes} == {Action.CREATE_CHANNEL, Action.CREATE_CONTRACT}
    assert not await broker.channels()
    done = await apply(first, registry, broker)
    assert len(done) == len(first.changes) == 18
    assert "loan-broker.request" in await broker.channels()
    assert (await registry.contract("loan-broker.request-value")).version == 1
    assert (await plan(model, registry, broker)).changes == ()
    assert await apply(await plan(model, registry, broker), registry, broker) == []


async def test_settings_and_formats_come_from_the_model(broker: MemoryBroker, registry: Registry) -> None:
    await apply(await plan(shop(), registry, broker), registry, broker)
    orders = await broker.describe("shop.id.orders")
    assert (orders.partitions, orders.retention) == (3, 60.0)
    assert (await registry.version("notes-value")).schema.type == "JSON"


async def test_a_compatible_change_says_who_is_deployed_first(
    broker: MemoryBroker, registry: Registry
) -> None:
    await apply(await plan(shop(), registry, broker), registry, broker)
    changes = (await plan(shop(', "note": D<string>?'), registry, broker)).changes
    assert [each.action for each in changes] == [Action.NEW_VERSION]
    assert changes[0].detail == "Deploy consumers first (Store), then Web."


async def test_an_incompatible_change_is_refused_and_nothing_is_done(
    broker: MemoryBroker, registry: Registry
) -> None:
    await apply(await plan(shop(), registry, broker), registry, broker)
    refused = await plan(shop(', "note": D<string>'), registry, broker)
    assert [each.action for each in refused.changes] == [Action.REFUSED]
    with pytest.raises(IncompatibleSchema, match=r"shop\.id\.orders-value"):
        await apply(refused, registry, broker)
    assert (await registry.contract("shop.id.orders-value")).version == 1


async def test_what_differs_and_is_not_changed_is_drift(broker: MemoryBroker, registry: Registry) -> None:
    await broker.create(Channel("shop.id.orders", partitions=5, retention=60.0))
    await apply(await plan(shop(), registry, broker), registry, broker)
    await apply(await plan(shop(', "note": D<string>?'), registry, broker), registry, broker)
    drift = (await plan(shop(), registry, broker)).drift
    assert [each.target for each in drift] == ["shop.id.orders", "shop.id.orders-value"]
    assert "the latest is 2" in drift[1].detail


async def test_messages_that_are_to_be_kept_for_ever_are_kept_or_told(
    broker: MemoryBroker, registry: Registry
) -> None:
    model = Model(parse_strictly(SHOP.replace("FIELDS", "").replace("60000", "-1")))
    await broker.create(Channel("shop.id.orders", partitions=3, retention=60.0))
    [drift] = (await plan(model, registry, broker)).drift
    assert drift.detail == "keeps messages for 60 seconds, the model says for ever."
    await broker.delete("shop.id.orders")
    await apply(await plan(model, registry, broker), registry, broker)
    assert (await broker.describe("shop.id.orders")).retention is None
    assert (await plan(model, registry, broker)).changes == ()


async def test_a_channel_with_too_few_partitions_grows(broker: MemoryBroker, registry: Registry) -> None:
    await broker.create(Channel("shop.id.orders", partitions=1, retention=60.0))
    done = await apply(await plan(shop(), registry, broker), registry, broker)
    assert Action.GROW_CHANNEL in {each.action for each in done}
    assert (await broker.describe("shop.id.orders")).partitions == 3


async def test_a_path_with_parameters_has_a_channel_for_each_value(
    broker: MemoryBroker, registry: Registry
) -> None:
    values = {"id": ["north", "south", "north"]}
    await apply(await plan(shop(), registry, broker, values), registry, broker)
    assert sorted(await broker.channels()) == ["notes", "shop.north.orders", "shop.south.orders"]
    assert (await registry.contract("shop.north.orders-value")).version == 1
    assert (await plan(shop(), registry, broker, values)).changes == ()


@pytest.mark.parametrize(("name", "value"), [("bank", "1"), ("id", "a/b"), ("id", "")])
async def test_parameters_that_cannot_be_are_refused(
    broker: MemoryBroker, registry: Registry, name: str, value: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"There are: id|Use letters"):
        await plan(shop(), registry, broker, {name: [value]})


async def test_settings_for_kafka_are_kafkas_business(broker: MemoryBroker, registry: Registry) -> None:
    await apply(await plan(compacted("delete"), registry, broker), registry, broker)
    assert (await broker.describe("kept")).settings == {}


async def test_settings_of_a_topic_are_made_kept_and_changed(kafka_server: Kafka, registry: Registry) -> None:
    topic = f"kept-{uuid4().hex}"
    kafka = KafkaBroker(kafka_server.url)
    await kafka.connect()
    try:
        await apply(await plan(compacted("delete", topic), registry, kafka), registry, kafka)
        await in_order(compacted("delete", topic), registry, kafka)
        made = await kafka.describe(topic)
        assert made.settings == {"cleanup.policy": "delete", "max.message.bytes": "70000"}
        changes = (await plan(compacted(["compact", "delete"], topic, 2), registry, kafka)).changes
        told = [(each.action, each.detail) for each in changes]
        assert told == [
            (Action.GROW_CHANNEL, "from 1 to 2 partitions"),
            (Action.ALTER_CHANNEL, "cleanup.policy=compact,delete"),
        ]
        await apply(Plan(changes), registry, kafka)
        await in_order(compacted(["delete", "compact"], topic, 2), registry, kafka)
        await kafka.delete(topic)
    finally:
        await kafka.close()


async def in_order(model: Model, registry: Registry, broker: Broker) -> None:
    """Kafka may tell of old settings for a moment."""
    async with asyncio.timeout(60):
        while (await plan(model, registry, broker)).changes:
            await asyncio.sleep(0.05)


def test_a_broker_has_the_channels_that_the_model_exposes_there() -> None:
    model = load_model(LOANS.with_name("stock-exchange.mdsl"))

    def at(scheme: str) -> set[str]:
        return {name for name, channel in model.channels.items() if is_at(model, channel, scheme)}

    assert at("nats") == {"Quotes"}
    assert at("kafka") == {*model.channels} - {"Quotes"}
    assert at("embedded") == {*model.channels}
    redis = Model(parse_strictly(BOTH))
    assert [is_at(redis, channel, "rediss") for channel in redis.channels.values()] == [True, False]


BOTH = """API description Both
channel A on path "a" produces message M delivering payload D<int>
channel B on path "b" produces message N delivering payload D<int>
message broker Redis exposes A at location "rediss://r" via protocol Redis
message broker Kafka exposes B at location "kafka://k" via protocol Kafka
"""


def compacted(policy: str | list[str], topic: str = "kept", partitions: int = 1) -> Model:
    bindings = {
        "partitions": partitions,
        "replicas": 1,
        "topicConfiguration": {"cleanup.policy": policy, "max.message.bytes": 70000},
    }
    return Model(
        parse_strictly(
            f'API description Kept data type T {{ "a": D<int> }} channel C on path "{topic}" '
            f"produces message M delivering payload T bindings for Kafka {json.dumps(bindings)}"
        )
    )


def entry(role: str, topic: str, admin: str, service: int) -> dict[str, str]:
    names = {"type": role, "pubsub.topic": topic, "pubsub.admin.type": admin}
    return {"service.id": str(service), "pubsub.framework.uuid": "f", **names}


def test_what_a_topology_lacks_or_has_otherwise_is_told() -> None:
    model = Model(
        parse_strictly(
            SHOP.replace("FIELDS", "")
            + 'message broker K exposes Shop at location "kafka:9092" via protocol Kafka\n'
            "message endpoint Reader uses channels: Notes\n"
        )
    )
    entries = [
        entry("publisher", "shop.7.orders", "kafka", 1),
        entry("subscriber", "shop.7.orders", "nats", 2),
        entry("publisher", "notes", "kafka", 3),
        entry("publisher", "somebody.elses", "kafka", 4),
    ]
    told = [*differences(model, [endpoint_of(each) for each in entries])]
    assert told == [
        ("topic shop.7.orders", "A subscriber is announced by nats, the model says kafka."),
        ("topic notes", "1 publisher is announced, the model has none."),
        ("topic notes", "No subscriber is announced, the model has Reader."),
    ]


def test_a_topology_is_compared_from_the_shell(tmp_path: Path) -> None:
    file, entries = tmp_path / "shop.mdsl", tmp_path / "endpoints.json"
    file.write_text(SHOP.replace("FIELDS", ""))
    both = [
        entry("publisher", "shop.7.orders", "memory", 1),
        entry("subscriber", "shop.7.orders", "memory", 2),
    ]
    places = ["--broker", f"embedded://{tmp_path}/broker", "--registry", f"sqlite://{tmp_path}/registry.db"]
    places += ["--discovery", f"file://{entries}", "--parameter", "id=7"]

    def run(verb: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, [verb, str(file), *places], catch_exceptions=False)
        return result.exit_code, result.output

    entries.write_text(json.dumps(both))
    assert run("apply")[0] == 0
    assert run("plan") == (0, "Nothing to change.\n")
    entries.write_text(json.dumps(both[:1]))
    code, output = run("plan")
    assert code == 1 and "No subscriber is announced" in output
    assert run("apply")[0] == 1


def test_plan_and_apply_from_the_shell(tmp_path: Path) -> None:
    places = ["--broker", f"embedded://{tmp_path}/broker", "--registry", f"sqlite://{tmp_path}/registry.db"]

    def run(verb: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, [verb, str(LOANS), *places], catch_exceptions=False)
        return result.exit_code, result.output

    code, output = run("plan")
    assert code == 1 and "create channel" in output
    code, output = run("apply")
    assert code == 0 and "create contract" in output
    assert run("plan") == (0, "Nothing to change.\n")
    assert run("apply") == (0, "Nothing to change.\n")
