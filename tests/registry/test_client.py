"""The caching client beside a live server."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
import pytest
from tests.registry.schemas import ORDER, ORDER_WITH_NOTE

from dragoman.core.errors import ConfigurationError, NotFound, RegistryError, RegistryUnavailable
from dragoman.core.schema import Schema
from dragoman.registry import RegistryClient
from dragoman.registry.access import Grant
from dragoman.registry.http.server import Server, ServerOptions
from dragoman.registry.keys import REGISTRY, create_password


def requests_to(server: Server) -> int:
    """How many requests the server has answered, this one not counted."""
    text = httpx.get(f"{server.url}/metrics").text
    counted = re.findall(
        r"^dragoman_registry_(?:requests_total\{.*\}|hot_reads_total) (\d+)", text, re.MULTILINE
    )
    return sum(map(int, counted))


async def test_concurrent_first_use_makes_one_request(server: Server) -> None:
    client = RegistryClient(server.url)
    made = await client.register("orders-value", ORDER)
    await client.close()
    client = RegistryClient(server.url)
    assert made.schema.id is not None
    before = requests_to(server)
    found = await asyncio.gather(*(client.schema(made.schema.id) for _ in range(50)))
    assert {each.text for each in found} == {made.schema.text}
    await client.schema(made.schema.id)
    assert requests_to(server) == before + 2  # the schema once, and the first look at the metrics
    await client.close()


async def test_one_who_gives_up_does_not_take_the_others_along(server: Server) -> None:
    client = RegistryClient(server.url)
    impatient = asyncio.create_task(client.register("orders-value", ORDER))
    patient = asyncio.create_task(client.register("orders-value", ORDER))
    await asyncio.sleep(0)
    impatient.cancel()
    assert (await patient).version == 1
    with pytest.raises(asyncio.CancelledError):
        await impatient
    await client.close()


async def test_not_found_is_never_remembered(server: Server) -> None:
    client, other = RegistryClient(server.url), RegistryClient(server.url)
    with pytest.raises(NotFound):
        await client.schema(1)
    with pytest.raises(NotFound):
        await client.find("orders-value", ORDER)
    await other.register("orders-value", ORDER)
    assert (await client.schema(1)).id == 1
    assert (await client.find("orders-value", ORDER)).version == 1
    await client.close()
    await other.close()


async def test_the_client_goes_on_when_the_registry_goes_away(tmp_path: Path) -> None:
    with Server(ServerOptions(store=f"sqlite://{tmp_path}/registry.db", port=0)) as server:
        client = RegistryClient(server.url)
        made = await client.register("orders-value", ORDER)
        contract = await client.contract("orders-value")
        latest = await client.version("orders-value")
    assert made.schema.id is not None
    assert await client.schema(made.schema.id) == made.schema
    assert await client.register("orders-value", ORDER) == made
    assert await client.contract("orders-value") == contract
    assert await client.version("orders-value") == latest
    with pytest.raises(RegistryUnavailable):
        await client.register("orders-value", ORDER_WITH_NOTE)
    await client.close()


async def test_what_may_change_is_asked_for_again(server: Server) -> None:
    client, other = RegistryClient(server.url), RegistryClient(server.url)
    await client.register("orders-value", ORDER)
    assert (await client.version("orders-value")).version == 1
    await other.register("orders-value", ORDER_WITH_NOTE)
    assert (await client.version("orders-value")).version == 2
    await client.close()
    await other.close()


async def test_after_a_deletion_the_client_forgets_the_contract(server: Server) -> None:
    client = RegistryClient(server.url)
    await client.register("orders-value", ORDER)
    await client.delete("orders-value")
    with pytest.raises(NotFound):
        await client.version("orders-value", 1)
    assert (await client.register("orders-value", ORDER)).version == 2
    await client.close()


@pytest.mark.parametrize("body", [b"<html", b"[123]", b"{  } "])
async def test_a_server_that_is_no_registry_is_told_apart(body: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    client = RegistryClient(f"http://127.0.0.1:{port}")
    with pytest.raises(RegistryError, match="lead to a Dragoman registry"):
        await client.schema(1)
    await client.close()
    listening.close()
    await listening.wait_closed()


async def test_the_password_in_a_url_is_not_shown() -> None:
    client = RegistryClient("http://ada:lovelace@127.0.0.1:9/")
    assert "lovelace" not in client.url
    with pytest.raises(RegistryUnavailable) as away:
        await client.register("orders-value", Schema("AVRO", '"string"'))
    assert "lovelace" not in str(away.value)
    await client.close()


async def test_a_password_in_a_url_may_be_quoted(tmp_path: Path) -> None:
    options = ServerOptions(store=f"sqlite://{tmp_path}/registry.db", port=0, credentials=True)
    with Server(options) as server:
        grants = (Grant.parse("write"),)
        server.service.engine.write_now(
            lambda tx: create_password(tx, "ada", "p@ss:w/rd", grants, author="test"), REGISTRY
        )
        client = RegistryClient(server.url.replace("//", "//ada:p%40ss%3Aw%2Frd@"))
        assert (await client.register("orders-value", ORDER)).version == 1
        await client.close()


async def test_a_registry_that_is_silent_is_told_so() -> None:
    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(wait, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    client = RegistryClient(f"http://127.0.0.1:{port}", timeout=0.1)
    with pytest.raises(RegistryUnavailable, match=r"does not answer: \w+Timeout"):
        await client.schema(1)
    await client.close()
    listening.close()
    await listening.wait_closed()


@pytest.mark.parametrize(
    "place", ["localhost:port", "localhost:99999", "[::1", "", "ada:love/lace@localhost"]
)
def test_a_url_that_leads_nowhere_is_refused_without_its_password(place: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        RegistryClient(f"http://{place}")
    assert "love" not in str(refused.value)
