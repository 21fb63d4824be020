"""New schemas get ids that were never given, whatever ids were imported."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.registry.test_identity import of_shape, opened

from dragoman.core.schema import Schema
from dragoman.registry import RegistryService, deletion
from dragoman.registry import bundle as bundles
from dragoman.registry.directory import read_directory, write_directory
from dragoman.registry.model import GREATEST_NUMBER, Draft
from dragoman.registry.name import ContractName
from dragoman.registry.registration import Registration, import_version, register
from dragoman.registry.store import schemas

NUMBERS = itertools.count()
"""Each test, and each example of a property, has contexts of its own."""

BOUND = schemas.GREATEST_COUNTED_ID if hasattr(schemas, "GREATEST_COUNTED_ID") else 2**30


@pytest.fixture
def nodes(store: str) -> Iterator[tuple[RegistryService, RegistryService]]:
    """Two over one database."""
    one, two = RegistryService.open(store), RegistryService.open(store)
    yield one, two
    one.engine.close()
    two.engine.close()


class Context:
    """A new context, with the ids that were given in it."""

    def __init__(self) -> None:
        self.name = f".ids{next(NUMBERS)}"
        self.given: dict[int, ContractName] = {}
        self.gone: set[int] = set()

    def _asked(self, id: int | None) -> Registration:
        number = next(NUMBERS)
        text = json.dumps({"type": "fixed", "name": f"F{number}", "size": 1})
        return Registration(ContractName(self.name, f"s{number}"), Draft("AVRO", text, id=id))

    def register(self, node: RegistryService) -> int:
        asked = self._asked(None)
        parser = node.engine.parser
        made = node.engine.write_now(lambda tx: register(tx, parser, asked), asked.name).schema.id
        assert made not in self.given and made not in self.gone
        assert 1 <= made <= GREATEST_NUMBER
        self.given[made] = asked.name
        again = node.engine.write_now(lambda tx: register(tx, parser, asked), asked.name).schema.id
        assert again == made
        return made

    def import_id(self, node: RegistryService, id: int) -> None:
        if id in self.given:
            return
        asked = self._asked(id)
        parser = node.engine.parser
        node.engine.write_now(lambda tx: import_version(tx, parser, asked), asked.name)
        self.given[id] = asked.name
        self.gone.discard(id)

    def delete(self, node: RegistryService, id: int) -> None:
        name = self.given.pop(id)
        for permanent in (False, True):
            node.engine.write_now(
                lambda tx, permanent=permanent: deletion.delete_contract(
                    tx, name, permanent=permanent, author="test"
                ),
                name,
            )
        self.gone.add(id)


IDS = st.one_of(
    st.integers(1, 6),
    st.integers(BOUND - 2, BOUND + 6),
    st.integers(GREATEST_NUMBER - 2, GREATEST_NUMBER),
    st.integers(1, GREATEST_NUMBER),
)
ACTIONS = st.lists(
    st.tuples(
        st.one_of(st.tuples(st.just("import"), IDS), st.just(("register", 0)), st.just(("delete", 0))),
        st.integers(0, 1),
    ),
    max_size=12,
)


@given(ACTIONS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_new_schema_gets_an_id_that_no_other_ever_had(
    nodes: tuple[RegistryService, RegistryService], actions: list[tuple[tuple[str, int], int]]
) -> None:
    context = Context()
    for (action, id), node in actions:
        if action == "import":
            context.import_id(nodes[node], id)
        elif action == "register":
            context.register(nodes[node])
        elif context.given:
            context.delete(nodes[node], max(context.given))
    for node in nodes * 2:
        counted = [each for each in (*context.given, *context.gone) if each <= BOUND]
        made = context.register(node)
        if max(counted, default=0) < BOUND:
            assert made == max(counted, default=0) + 1


@pytest.mark.parametrize("high", [GREATEST_NUMBER, GREATEST_NUMBER - 1, BOUND + 1])
def test_a_high_id_that_was_imported_does_not_use_up_the_others(
    nodes: tuple[RegistryService, RegistryService], high: int
) -> None:
    context = Context()
    assert context.register(nodes[0]) == 1
    context.import_id(nodes[0], 70)
    context.import_id(nodes[0], high)
    assert context.register(nodes[1]) == 71
    context.delete(nodes[0], high)
    assert context.register(nodes[1]) == 72


def test_ids_above_the_bound_are_skipped_once(nodes: tuple[RegistryService, RegistryService]) -> None:
    context = Context()
    for id in (BOUND + 2, BOUND + 4, BOUND + 3, BOUND, BOUND + 1, GREATEST_NUMBER):
        context.import_id(nodes[0], id)
    context.delete(nodes[0], BOUND + 3)
    assert [context.register(node) for node in nodes * 2] == [BOUND + 5, BOUND + 6, BOUND + 7, BOUND + 8]


async def test_nodes_that_register_at_once_above_the_bound_give_no_id_twice(
    nodes: tuple[RegistryService, RegistryService],
) -> None:
    context = Context()
    for id in (BOUND, BOUND + 3, BOUND + 10):
        context.import_id(nodes[0], id)

    async def fill(node: RegistryService) -> list[int]:
        made = []
        for _ in range(10):
            text = json.dumps({"type": "fixed", "name": f"F{next(NUMBERS)}", "size": 1})
            name = f":{context.name}:s{next(NUMBERS)}"
            made.append((await node.register(name, Schema("AVRO", text))).schema.id)
        return made

    one, two = await asyncio.gather(*(fill(node) for node in nodes))
    assert sorted(one + two) == [id for id in range(BOUND + 1, BOUND + 23) if id not in context.given]


def test_an_export_keeps_the_ids_that_are_gone(
    nodes: tuple[RegistryService, RegistryService], tmp_path: Path
) -> None:
    context = Context()
    for id in (BOUND, BOUND + 1, BOUND + 2, GREATEST_NUMBER):
        context.import_id(nodes[0], id)
    for id in (BOUND + 2, GREATEST_NUMBER):
        context.delete(nodes[0], id)
    assert context.register(nodes[0]) == BOUND + 3
    context.delete(nodes[0], BOUND + 3)
    write_directory(nodes[0].engine.read_now(bundles.collect), tmp_path / "export")
    for directory in (True, False):
        copy = RegistryService.open(f"sqlite://{tmp_path}/copy{directory}.db")
        collected = nodes[0].engine.read_now(bundles.collect)
        bundle = (
            read_directory(tmp_path / "export")
            if directory
            else bundles.from_json(bundles.to_json(collected))
        )
        touched = [ContractName(each, "") for each in bundles.contexts_in(bundle)]
        parser = copy.engine.parser
        copy.engine.write_now(
            lambda tx, bundle=bundle, parser=parser: bundles.restore(tx, parser, bundle, author="test"),
            *touched,
        )
        made = context.register(copy)
        assert made == BOUND + 4
        del context.given[made]
        copy.engine.close()


def test_an_import_of_a_counter_does_not_use_up_the_ids(
    nodes: tuple[RegistryService, RegistryService],
) -> None:
    context, engine = Context(), nodes[0].engine
    bundle = bundles.Bundle(bundles.FORMAT, {context.name: GREATEST_NUMBER + 1})
    engine.write_now(
        lambda tx: bundles.restore(tx, engine.parser, bundle, author="test"), ContractName(context.name, "")
    )
    assert context.register(nodes[1]) == BOUND + 1


@pytest.mark.parametrize("present", [True, False])
def test_a_registry_whose_ids_were_used_up_can_be_used_again(
    store: str, monkeypatch: pytest.MonkeyPatch, present: bool
) -> None:
    """An older program counted on from every id that was imported, also if it was deleted afterwards."""
    database = of_shape(store, monkeypatch, 3)
    context = Context()
    next_id = 1 if present else GREATEST_NUMBER + 1
    with database.transaction() as tx:
        tx.execute("INSERT INTO registry_contexts VALUES (?, ?)", (context.name, next_id))
        for id in (3, BOUND + 1, GREATEST_NUMBER)[: 3 if present else 2]:
            tx.execute(
                "INSERT INTO registry_schemas (context, id, guid, type, body, refs, form, identity, created)"
                " VALUES (?, ?, ?, 'AVRO', '\"int\"', '[]', 'f', 'i', 0)",
                (context.name, id, f"guid{id}"),
            )
            context.gone.add(id)
    database.close()
    service = RegistryService.open(store)
    assert context.register(service) == (4 if present else BOUND + 2)
    service.engine.close()
    database = opened(store)
    with database.transaction(write=False) as tx:
        assert schemas.high_ids(tx)[context.name][-1] == GREATEST_NUMBER
    database.close()
