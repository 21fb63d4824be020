"""The model runs: plan and apply over a broker and a registry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dragoman.adapters.memory import MemoryBroker
from dragoman.cli.model import app
from dragoman.core.channel import Channel
from dragoman.core.errors import IncompatibleSchema
from dragoman.core.registry import Registry
from dragoman.language.model import Model, load_model
from dragoman.language.parser import parse_strictly
from dragoman.language.running.plan import Action, apply, plan
from dragoman.registry import connect

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


async def test_a_channel_with_too_few_partitions_grows(broker: MemoryBroker, registry: Registry) -> None:
    await broker.create(Channel("shop.id.orders", partitions=1, retention=60.0))
    done = await apply(await plan(shop(), registry, broker), registry, broker)
    assert Action.GROW_CHANNEL in {each.action for each in done}
    assert (await broker.describe("shop.id.orders")).partitions == 3


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
