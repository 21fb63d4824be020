"""Two servers over one database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import httpx
import pytest
from tests.registry.schemas import ORDER, ORDER_WITH_NOTE, avro

from dragoman.core.contract import Compatibility
from dragoman.core.schema import Schema
from dragoman.registry import RegistryClient
from dragoman.registry.http.server import Server, ServerOptions


@pytest.fixture
def nodes(store: str) -> Iterator[tuple[Server, Server]]:
    with Server(ServerOptions(store=store, port=0)) as one, Server(ServerOptions(store=store, port=0)) as two:
        yield one, two


async def test_nodes_that_register_at_once_never_give_a_number_twice(nodes: tuple[Server, Server]) -> None:
    clients = [RegistryClient(node.url) for node in nodes]

    async def fill(client: RegistryClient) -> list[tuple[str, int, int | None]]:
        await client.set_compatibility("growing", Compatibility.NONE)
        made = []
        for turn in range(15):
            same = await client.register(f"same-{turn}", avro(("id", "long"), name=f"Same{turn}"))
            grown = await client.register("growing", avro(("id", "long"), name=f"Grown{turn}"))
            made += [
                (same.contract, same.version, same.schema.id),
                ("growing", grown.version, grown.schema.id),
            ]
        return made

    one, two = await asyncio.gather(*(fill(client) for client in clients))
    assert sorted(one) == sorted(two)
    growing = [version for contract, version, _ in one if contract == "growing"]
    assert sorted(growing) == list(range(1, 16))
    assert len({id for _, _, id in one}) == 30
    for client in clients:
        await client.close()


async def test_a_node_sees_what_the_other_did(nodes: tuple[Server, Server]) -> None:
    one, two = (RegistryClient(node.url) for node in nodes)
    await one.register("orders-value", ORDER)
    assert (await two.version("orders-value")).version == 1
    assert (await two.version("orders-value")).version == 1
    await one.register("orders-value", ORDER_WITH_NOTE)
    deadline = time.monotonic() + 60
    while (await two.version("orders-value")).version != 2:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert (await one.version("orders-value")).version == 2
    await one.close()
    await two.close()


def test_a_schema_deleted_on_one_node_disappears_from_the_other(nodes: tuple[Server, Server]) -> None:
    one, two = nodes
    httpx.post(f"{one.url}/contracts/orders-value", json={"schema": ORDER.text})
    for _ in range(2):
        assert httpx.get(f"{two.url}/schemas/1").status_code == 200
    httpx.delete(f"{one.url}/contracts/orders-value")
    httpx.delete(f"{one.url}/contracts/orders-value?permanent=true")
    assert httpx.get(f"{one.url}/schemas/1").status_code == 404
    deadline = time.monotonic() + 60
    while httpx.get(f"{two.url}/schemas/1").status_code != 404:
        assert time.monotonic() < deadline
        time.sleep(0.05)


async def test_an_incompatible_pair_at_once_is_refused_on_one_of_the_nodes(
    nodes: tuple[Server, Server],
) -> None:
    clients = [RegistryClient(node.url) for node in nodes]
    await clients[0].set_compatibility("orders-value", Compatibility.FULL_TRANSITIVE)
    rivals = [Schema("AVRO", '"string"'), Schema("AVRO", '"int"')]
    answers = await asyncio.gather(
        *(client.register("orders-value", rival) for client, rival in zip(clients, rivals, strict=True)),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, Exception) for answer in answers) == 1
    for client in clients:
        await client.close()
