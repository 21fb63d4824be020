"""What both implementations of the registry port promise."""

from __future__ import annotations

import asyncio

import pytest
from tests.registry.schemas import ORDER, ORDER_WITH_NOTE, ORDER_WITH_TOTAL, avro

from dragoman.core.contract import Compatibility, UpdateOrder
from dragoman.core.errors import (
    ConfigurationError,
    Conflict,
    IncompatibleSchema,
    InvalidSchema,
    NotFound,
)
from dragoman.core.registry import Registry
from dragoman.core.schema import Reference, Schema


async def test_a_registered_schema_is_found_by_id_version_and_content(registry: Registry) -> None:
    made = await registry.register("orders-value", ORDER)
    assert (made.contract, made.version) == ("orders-value", 1)
    assert made.schema.id is not None
    assert await registry.schema(made.schema.id) == made.schema
    assert await registry.version("orders-value", 1) == made
    assert await registry.version("orders-value") == made
    assert await registry.find("orders-value", ORDER) == made


async def test_registering_again_changes_nothing(registry: Registry) -> None:
    first = await registry.register("orders-value", ORDER)
    spaced = Schema("AVRO", ORDER.text.replace(",", " ,\n"))
    assert await registry.register("orders-value", spaced) == first
    assert list(await registry.versions("orders-value")) == [1]


async def test_one_schema_has_one_id_however_many_contracts_use_it(registry: Registry) -> None:
    one = await registry.register("orders-value", ORDER)
    other = await registry.register("archive-value", ORDER)
    third = await registry.register("other-value", ORDER_WITH_NOTE)
    assert one.schema.id == other.schema.id != third.schema.id


async def test_a_compatible_schema_becomes_the_next_version(registry: Registry) -> None:
    await registry.register("orders-value", ORDER)
    second = await registry.register("orders-value", ORDER_WITH_NOTE)
    assert second.version == 2
    assert await registry.version("orders-value") == second
    assert list(await registry.versions("orders-value")) == [1, 2]


async def test_an_incompatible_schema_is_refused_with_its_reasons(registry: Registry) -> None:
    await registry.register("orders-value", ORDER)
    with pytest.raises(IncompatibleSchema) as refused:
        await registry.register("orders-value", ORDER_WITH_TOTAL)
    assert refused.value.reasons[0].rule == "READER_FIELD_MISSING_DEFAULT_VALUE"
    assert refused.value.where["version"] == 1
    assert list(await registry.versions("orders-value")) == [1]


async def test_a_check_changes_nothing_and_says_why(registry: Registry) -> None:
    await registry.register("orders-value", ORDER)
    verdict = await registry.check("orders-value", ORDER_WITH_TOTAL)
    assert not verdict.compatible
    assert verdict.version == 1
    assert "total" in verdict.reasons[0].message
    assert (await registry.check("orders-value", ORDER_WITH_NOTE)).compatible
    assert (await registry.check("unheard-of", ORDER)).compatible
    assert list(await registry.versions("orders-value")) == [1]


async def test_a_check_may_name_one_version(registry: Registry) -> None:
    await registry.set_compatibility("orders-value", Compatibility.NONE)
    await registry.register("orders-value", ORDER)
    await registry.register("orders-value", ORDER_WITH_TOTAL)
    await registry.set_compatibility("orders-value", Compatibility.BACKWARD)
    assert not (await registry.check("orders-value", ORDER_WITH_TOTAL, version=1)).compatible
    assert (await registry.check("orders-value", ORDER_WITH_TOTAL, version=2)).compatible
    assert (await registry.check("orders-value", ORDER_WITH_TOTAL, version="latest")).compatible
    with pytest.raises(NotFound):
        await registry.check("orders-value", ORDER, version=7)


@pytest.mark.parametrize(
    ("strategy", "order"),
    [
        (Compatibility.BACKWARD, UpdateOrder.CONSUMER_FIRST),
        (Compatibility.FORWARD_TRANSITIVE, UpdateOrder.PRODUCER_FIRST),
        (Compatibility.FULL, UpdateOrder.ANY),
        (Compatibility.NONE, UpdateOrder.UNDEFINED),
    ],
)
async def test_a_contract_tells_its_channel_strategy_and_update_order(
    registry: Registry, strategy: Compatibility, order: UpdateOrder
) -> None:
    await registry.set_compatibility("orders-value", strategy)
    await registry.register("orders-value", ORDER)
    contract = await registry.contract("orders-value")
    assert (contract.name, contract.channel, contract.version) == ("orders-value", "orders", 1)
    assert contract.compatibility is strategy
    assert contract.update_order is order


async def test_a_transitive_strategy_compares_with_every_version(registry: Registry) -> None:
    await registry.register("orders-value", avro(("id", "long")))
    await registry.register("orders-value", avro(("id", "long"), ("kind", "string", "a")))
    required = avro(("id", "long"), ("kind", "string"))
    assert (await registry.check("orders-value", required)).compatible
    await registry.set_compatibility("orders-value", Compatibility.BACKWARD_TRANSITIVE)
    verdict = await registry.check("orders-value", required)
    assert not verdict.compatible
    assert verdict.version == 1


@pytest.mark.parametrize(
    "strategy",
    [Compatibility.BACKWARD_TRANSITIVE, Compatibility.FORWARD_TRANSITIVE, Compatibility.FULL_TRANSITIVE],
)
async def test_registering_asks_every_version_that_the_strategy_names(
    registry: Registry, strategy: Compatibility
) -> None:
    """The latest version alone would take each of these: what they contradict is in the first one."""
    plain, added = avro(("id", "long")), avro(("id", "long"), ("kind", "string", "a"))
    required = avro(("id", "long"), ("kind", "string"))
    older, newer = (required, plain) if strategy is Compatibility.FORWARD_TRANSITIVE else (plain, required)
    for schema in (older, added):
        await registry.register("orders-value", schema)
    one = Compatibility(strategy.name.removesuffix("_TRANSITIVE"))
    await registry.set_compatibility("orders-value", one)
    assert (await registry.check("orders-value", newer)).compatible
    await registry.set_compatibility("orders-value", strategy)
    with pytest.raises(IncompatibleSchema) as refused:
        await registry.register("orders-value", newer)
    assert refused.value.where["version"] == 1
    assert list(await registry.versions("orders-value")) == [1, 2]


async def test_deleting_hides_first_and_removes_second(registry: Registry) -> None:
    made = await registry.register("orders-value", ORDER)
    await registry.register("orders-value", ORDER_WITH_NOTE)
    with pytest.raises(Conflict):
        await registry.delete("orders-value", permanent=True)
    assert list(await registry.delete("orders-value", 1)) == [1]
    assert list(await registry.versions("orders-value")) == [2]
    assert made.schema.id is not None
    assert (await registry.schema(made.schema.id)).id == made.schema.id
    assert list(await registry.delete("orders-value")) == [2]
    with pytest.raises(NotFound):
        await registry.versions("orders-value")
    assert list(await registry.contracts()) == []
    assert list(await registry.delete("orders-value", permanent=True)) == [1, 2]


async def test_a_version_number_is_never_given_twice(registry: Registry) -> None:
    await registry.register("orders-value", ORDER)
    await registry.delete("orders-value")
    await registry.delete("orders-value", permanent=True)
    assert (await registry.register("orders-value", ORDER)).version == 2


async def test_contracts_are_listed_by_prefix(registry: Registry) -> None:
    for name in ("b-value", "a-value", "b-key"):
        await registry.register(name, ORDER)
    assert list(await registry.contracts()) == ["a-value", "b-key", "b-value"]
    assert list(await registry.contracts("b-")) == ["b-key", "b-value"]


async def test_a_reference_leads_to_another_contract(registry: Registry) -> None:
    await registry.register("customer", avro(("name", "string"), name="Customer"))
    order = avro(("id", "long"), ("customer", "shop.Customer"))
    with pytest.raises(InvalidSchema):
        await registry.register("orders-value", order)
    linked = Schema("AVRO", order.text, (Reference("shop.Customer", "customer", 1),))
    made = await registry.register("orders-value", linked)
    assert made.schema.references == linked.references
    with pytest.raises(Conflict) as refused:
        await registry.delete("customer")
    assert refused.value.code == "registry.referenced"


async def test_a_reference_that_leads_nowhere_is_refused(registry: Registry) -> None:
    lost = Schema("AVRO", ORDER.text, (Reference("shop.Customer", "customer", 3),))
    with pytest.raises(InvalidSchema, match="customer"):
        await registry.register("orders-value", lost)


async def test_what_is_not_there_is_not_found(registry: Registry) -> None:
    await registry.register("orders-value", ORDER)
    for asking, code in (
        (registry.schema(4711), "registry.not-found.schema"),
        (registry.contract("nothing"), "registry.not-found.contract"),
        (registry.versions("nothing"), "registry.not-found.contract"),
        (registry.version("nothing"), "registry.not-found.contract"),
        (registry.version("orders-value", 9), "registry.not-found.version"),
        (registry.find("orders-value", ORDER_WITH_NOTE), "registry.not-found.schema"),
        (registry.delete("nothing"), "registry.not-found.contract"),
    ):
        with pytest.raises(NotFound) as missing:
            await asking
        assert missing.value.code == code


async def test_bad_requests_are_refused_with_a_code(registry: Registry) -> None:
    with pytest.raises(InvalidSchema) as refused:
        await registry.register("orders-value", Schema("AVRO", '{"type": "recrod"}'))
    assert refused.value.code.startswith("schema.invalid")
    with pytest.raises(InvalidSchema):
        await registry.register("orders-value", Schema("COBOL", "01 ORDER."))
    with pytest.raises(ConfigurationError) as refused_name:
        await registry.register("x" * 300, ORDER)
    assert refused_name.value.code == "registry.invalid.name"


async def test_names_may_contain_what_urls_use(registry: Registry) -> None:
    for name in ("a/b c?d#e%2F", "ключ-value", ":.sales:orders-value"):
        made = await registry.register(name, ORDER)
        assert made.contract == name
        assert (await registry.contract(name)).version == 1


async def test_contexts_number_their_schemas_apart(registry: Registry) -> None:
    plain = await registry.register("orders-value", ORDER_WITH_NOTE)
    sales = await registry.register(":.sales:orders-value", ORDER)
    assert plain.schema.id == sales.schema.id == 1


async def test_many_at_once_get_one_version(registry: Registry) -> None:
    made = await asyncio.gather(*(registry.register("orders-value", ORDER) for _ in range(20)))
    assert {(each.version, each.schema.id) for each in made} == {(1, 1)}


async def test_many_at_once_are_accepted_or_refused_each_by_itself(registry: Registry) -> None:
    await registry.register("orders-value", ORDER)
    asked = [
        registry.register(f"c{number}-value", avro(("id", "long"), name=f"C{number}"))
        if number % 3
        else registry.register("orders-value", avro(("id", "long"), (f"f{number}", "string")))
        for number in range(30)
    ]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    for number, answer in enumerate(answers):
        if number % 3:
            assert not isinstance(answer, BaseException)
            assert answer.contract == f"c{number}-value"
        else:
            assert isinstance(answer, IncompatibleSchema)
    assert len(await registry.contracts()) == 21
    assert list(await registry.versions("orders-value")) == [1]


async def test_level_two_normalisation_makes_equal_what_means_the_same(registry: Registry) -> None:
    text = '{"type":"record","name":"shop.Order","fields":[{"name":"id","type":{"type":"long"}}]}'
    other = '{"name":"Order","namespace":"shop","type":"record","fields":[{"type":"long","name":"id"}]}'
    first = await registry.register("orders-value", Schema("AVRO", text), normalize=True)
    assert await registry.find("orders-value", Schema("AVRO", other), normalize=True) == first
