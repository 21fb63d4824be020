"""A client under a model writes and reads the model's contracts, and never registers its classes there."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Client, ClientOptions, Naming, endpoint, record
from dragoman.adapters.memory import MemoryBroker
from dragoman.client.contracts import Contracts
from dragoman.core.errors import (
    ConfigurationError,
    ConstraintViolated,
    DragomanError,
    EncodeError,
    IncompatibleSchema,
    StartupError,
)
from dragoman.core.registry import Registry
from dragoman.language.generators.code.records import (
    all_definitions,
    class_name,
    example,
    payload_record,
    records_module,
)
from dragoman.language.model import Model, load_model
from dragoman.language.parser import parse_strictly
from dragoman.language.path import channel_name
from dragoman.language.running.plan import Action, apply, plan
from dragoman.language.running.role import Role
from dragoman.registry import connect
from dragoman.schema.markers import Double, Int
from tests.client.waiting import until

MODELS = sorted((Path(__file__).parents[2] / "examples" / "models").glob("*.mdsl"))
SYSTEMS = ("AVRO_SCHEMA", "JSON_SCHEMA", "PROTOCOL_BUFFER", "THRIFT_TYPE")
TEXT = """API description Shop
data type Order { "id": ID<int>, "total": D<double>, "note": D<string>?MORE }
data type Receipt { "id": ID<int> }
channel Orders
  request message PlaceOrder on path "shops/${shop}/orders" with shop: int expecting payload Order
  reply message Placed on path "shops/${shop}/receipts" with shop: int delivering payload Receipt
message endpoint Web uses channels: Orders
message endpoint Store provides channels: Orders
"""
VALUES = {"shop": ["7"]}
ORDERS, RECEIPTS = "shops.7.orders", "shops.7.receipts"
_numbers = count()


@record
class Order:
    """Without the model's namespace, and in another order."""

    total: Double
    id: Int
    note: str | None = None


@record
class Receipt:
    id: Int


@record
class Longer:
    id: Int
    total: Double
    note: str | None = None
    colour: str | None = None


@record
class Shorter:
    id: Int
    total: Double


@record
class Wrong:
    id: str
    total: Double


class System:
    """A model, a broker and a registry."""

    def __init__(self, file: Path, registry: Registry, broker: MemoryBroker) -> None:
        self.file, self.registry, self.broker = file, registry, broker
        self.say()

    def say(self, more: str = "") -> None:
        self.file.write_text(TEXT.replace("MORE", more))

    @property
    def model(self) -> Model:
        return load_model(self.file)

    async def apply(self) -> None:
        await apply(await plan(self.model, self.registry, self.broker, VALUES), self.registry, self.broker)

    async def plan(self) -> list[str]:
        """What would be done to contracts, without those of the parameter's own name."""
        changes = (await plan(self.model, self.registry, self.broker, VALUES)).changes
        return [f"{each.action} {each.target}" for each in changes if each.target.endswith("-value")]

    def client(self, name: str, *controllers: Any, options: ClientOptions | None = None) -> Client:
        return Client(self.broker, self.registry, controllers, model=self.file, as_=name, options=options)

    async def versions(self) -> list[int]:
        return [*await self.registry.versions(f"{ORDERS}-value")]


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    broker, registry = MemoryBroker(f"memory://contracts-{next(_numbers)}"), connect("memory://")
    await broker.connect()
    yield System(tmp_path / "shop.mdsl", registry, broker)
    await registry.close()
    await broker.close()


@endpoint(ORDERS)
async def store(order: Order) -> Receipt:
    return Receipt(order.id)


@pytest.mark.parametrize("naming", Naming)
@pytest.mark.parametrize("applied", [True, False])
async def test_clients_leave_nothing_to_plan(system: System, naming: Naming, applied: bool) -> None:
    if applied:
        await system.apply()
    options = ClientOptions(naming=naming)
    async with system.client("Store", store, options=options), system.client("Web", options=options) as web:
        for cls in (Order, Shorter):
            order: Any = cls(id=5, total=1.5)
            assert await web.request(ORDERS, order, reply=Receipt, timeout=60.0) == Receipt(5)
    assert await system.versions() == [1]
    assert await system.plan() == []
    contracts = await system.registry.contracts()
    assert set(contracts) == {f"{ORDERS}-value", f"{RECEIPTS}-value"}


async def test_what_cannot_be_kept_is_not_sent(system: System) -> None:
    await system.apply()
    async with system.client("Web") as web:
        with pytest.raises(IncompatibleSchema, match=r"Longer\.colour has no place") as raised:
            await web.publish(ORDERS, Longer(1, 2.0, colour="red"))
        assert raised.value.code == "client.model-class"
        assert str(system.file) in str(raised.value) and "dragoman model code" in str(raised.value)
        with pytest.raises(IncompatibleSchema, match=r"Wrong is not what the model has"):
            await web.publish(ORDERS, Wrong("1", 2.0))
    assert await system.versions() == [1]


async def test_a_reply_that_cannot_be_kept_fails_start_up(system: System) -> None:
    @record
    class LongReceipt:
        id: Int
        text: str = ""

    @endpoint(ORDERS)
    async def talkative(order: Order) -> LongReceipt:
        return LongReceipt(order.id)

    with pytest.raises(StartupError, match=r"LongReceipt\.text has no place"):
        async with system.client("Store", talkative):
            pass
    assert await system.registry.versions(f"{RECEIPTS}-value") == [1]


async def test_a_class_that_knows_more_may_read(system: System) -> None:
    seen: list[Longer] = []

    @endpoint(ORDERS)
    async def reader(order: Longer) -> Receipt:
        seen.append(order)
        return Receipt(order.id)

    async with system.client("Store", reader), system.client("Web") as web:
        await web.request(ORDERS, Order(2.0, 1, "x"), reply=Receipt, timeout=60.0)
    assert seen == [Longer(1, 2.0, "x")]
    assert await system.versions() == [1]


@pytest.mark.parametrize("receives", [True, False])
async def test_a_model_that_was_not_applied_is_told(system: System, receives: bool) -> None:
    await system.apply()
    system.say(', "more": D<string>?')
    with pytest.raises(DragomanError, match=r"no version with the model's schema.*model apply") as raised:
        async with system.client(*(("Store", store) if receives else ("Web",))) as client:
            await client.publish(ORDERS, Order(2.0, 1))
    assert isinstance(raised.value, StartupError if receives else ConfigurationError)
    assert await system.versions() == [1]
    await system.apply()
    async with system.client("Web") as web:
        await web.publish(ORDERS, Order(2.0, 1))
    assert await system.plan() == []


async def test_nothing_is_registered_where_that_is_switched_off(system: System) -> None:
    with pytest.raises(ConfigurationError, match="model apply") as raised:
        async with system.client("Web", options=ClientOptions(auto_register_schemas=False)) as web:
            await web.publish(ORDERS, Order(2.0, 1))
    assert raised.value.code == "client.model-not-applied"


async def test_a_client_of_an_older_model_stays_with_its_version(system: System) -> None:
    await system.apply()
    old = system.file.with_name("old.mdsl")
    old.write_text(system.file.read_text())
    system.say(', "more": D<string>?')
    await system.apply()
    async with (
        system.client("Store", store),
        Client(system.broker, system.registry, model=old, as_="Web") as web,
    ):
        assert await web.request(ORDERS, Order(2.0, 3), reply=Receipt, timeout=60.0) == Receipt(3)
    assert await system.versions() == [1, 2]
    assert await system.plan() == []


async def test_what_clients_without_the_model_wrote_with_the_class_is_read(system: System) -> None:
    await system.apply()
    seen: list[Order] = []

    @endpoint(ORDERS)
    async def reader(order: Order) -> Receipt:
        seen.append(order)
        return Receipt(order.id)

    async with Client(system.broker, system.registry) as plain:
        await plain.publish(ORDERS, Order(2.0, 1))
        assert await system.versions() == [1, 2]
        async with system.client("Store", reader), system.client("Web") as web:
            await web.publish(ORDERS, Order(2.0, 2))
            await until(lambda: len(seen) == 2)
    assert sorted(each.id for each in seen) == [1, 2]


def systems() -> Any:
    return [pytest.param(path, system, id=f"{path.stem}-{system}") for path in MODELS for system in SYSTEMS]


def _records(model: Model) -> ModuleType:
    made = ModuleType(f"records_{next(_numbers)}")
    sys.modules[made.__name__] = made
    exec(records_module(model, "model.mdsl"), made.__dict__)
    return made


@pytest.mark.parametrize(("path", "system"), systems())
async def test_generated_classes_write_and_read_what_the_model_registers(path: Path, system: str) -> None:
    """In every schema language: the class fits, and the registry has the model's schemas alone."""
    model = load_model(path)
    for channel in model.channels.values():
        for message in channel.messages:
            said = message.content.type_system
            if system != "AVRO_SCHEMA" or (said is not None and said.text != system):
                object.__setattr__(message.content, "type_system", _Word(system))
    role, module, known = Role(model, next(iter(model.endpoints))), _records(model), all_definitions(model)
    registry, broker = connect("memory://"), MemoryBroker(f"memory://contracts-{next(_numbers)}")
    await broker.connect()
    contracts, written = Contracts(registry, ClientOptions(), owned=role.owned), set[str]()
    try:
        for channel in model.channels.values():
            for message in channel.messages:
                name, record = channel_name(message.path), payload_record(message)
                cls = getattr(module, class_name(record))
                bound = await contracts.bind(name, cls, writes=True)
                value = eval(example(known, record), module.__dict__)
                decode = await contracts.frame_decoder(bound.schema_id, cls, bound.known)
                # The example has empty lists and no alternative, which JSON Schema alone can forbid.
                refused = (ConstraintViolated, EncodeError) if system == "JSON_SCHEMA" else ()
                with contextlib.suppress(*refused):
                    assert decode(bound.encode(value)) == value
                    written.add(record)
        assert written
        changes = (await plan(model, registry, broker)).changes
        assert {each.action for each in changes} <= {Action.CREATE_CHANNEL}
    finally:
        del sys.modules[module.__name__]
        await broker.close()
        await registry.close()


class _Word:
    def __init__(self, text: str) -> None:
        self.text = text


FIELDS = {"id": Int, "total": Double, "note": str | None, "colour": str | None, "size": Int}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, unique=True),
    st.sampled_from(["", "Shop", "Other"]),
    st.sampled_from(["Order", "Purchase"]),
    st.booleans(),
    st.booleans(),
)
def test_no_class_ever_changes_the_contract(
    fields: list[str], namespace: str, name: str, writes: bool, applied: bool
) -> None:
    ordered = sorted(fields, key=lambda each: each in ("note", "colour"))
    body: dict[str, Any] = {"__annotations__": {each: FIELDS[each] for each in ordered}}
    body |= {each: None for each in ordered if each in ("note", "colour")}
    cls = record(namespace=namespace)(type(name, (), body))
    model = Model(parse_strictly(TEXT.replace("MORE", "")))
    role = Role(model, "Web")
    owned = role.owned(ORDERS)
    assert owned is not None

    async def check() -> None:
        registry = connect("memory://")
        try:
            if applied:
                await registry.register(owned.contract, owned.schema)
            contracts = Contracts(registry, ClientOptions(), owned=role.owned)
            needed, known = {"id", "total"}, {"id", "total", "note"}
            fits = needed <= set(fields) and "size" not in fields
            try:
                bound = await contracts.bind(ORDERS, cls, writes=writes)
            except IncompatibleSchema:
                assert not fits or (writes and not set(fields) <= known)
            else:
                assert fits and (not writes or set(fields) <= known)
                assert bound.version.version == 1
                assert bound.version == await registry.find(owned.contract, owned.schema)
            if applied or fits:
                assert await registry.versions(owned.contract) == [1]
        finally:
            await registry.close()

    asyncio.run(check())
