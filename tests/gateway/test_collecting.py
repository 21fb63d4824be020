"""The clients by HTTP and by SEP: a response that its caller does not have is not confirmed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.core.errors import BrokerUnavailable, ClientError, ReplyTimeout
from dragoman.gateway.envelope import Envelope, datum, to_json
from dragoman.gateway.http.client import HttpClient
from dragoman.gateway.http.server import SepOptions, Server, ServerOptions
from dragoman.gateway.sep import Operation, SepClient, ServerKey
from tests.gateway.kit import answer, ask, inside, options

WAYS = ("http", "sep")
Sent = Callable[[bytes], Awaitable[None]]


@pytest.fixture(scope="module")
def key() -> ServerKey:
    return ServerKey.generate()


@pytest.fixture(scope="module")
def server(key: ServerKey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file: Path = tmp_path_factory.mktemp("sep") / "sep.key"
    key.write(file)
    sep = SepOptions(key=str(file), port=0)
    with Server(ServerOptions(gateway=options(), port=0, sep=sep)) as running:
        yield running


@asynccontextmanager
async def client_of(server: Server, key: ServerKey, way: str) -> AsyncIterator[HttpClient | SepClient]:
    if way == "http":
        async with HttpClient(server.url) as by_http:
            yield by_http
    else:
        assert server.application.sep is not None
        async with SepClient(*server.application.sep.address, key.public) as by_sep:
            yield by_sep


def after_each_confirmation(client: HttpClient | SepClient, sent: Sent) -> None:
    """``sent`` is awaited when the gateway has taken a confirmation, before the client knows it."""
    name = "_post" if isinstance(client, HttpClient) else "request"
    send = getattr(client, name)

    async def sending(to: object, body: bytes, timeout: float):
        found = await send(to, body, timeout)
        if b'"method":"delete"' in body:
            await sent(body)
        return found

    setattr(client, name, sending)


async def in_gateway(server: Server, work: Awaitable[object]) -> None:
    loop = next(iter(server.gateway.client._run.consumers))._task.get_loop()
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))  # type: ignore[arg-type]


async def answered(server: Server, client: HttpClient | SepClient, entity: str) -> Envelope:
    """A request whose response can be collected."""
    asked = ask(entity)
    if isinstance(client, HttpClient):
        await client.drop_off(asked)
    else:
        assert (await client.request(Operation.DROP_OFF, to_json(asked))).status == 202

    async def reply() -> None:
        for arrived in await inside(server.gateway):
            if arrived.envelope.client.request_id == asked.client.request_id:
                await answer(server.gateway, arrived.envelope, [datum("id", asked.client.request_id)])

    await in_gateway(server, reply())
    return asked


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("entity", ["movement", "offer", "news"])
async def test_a_caller_that_is_cancelled_collects_the_response_later(
    server: Server, key: ServerKey, way: str, entity: str
) -> None:
    async with client_of(server, key, way) as client:
        asked = await answered(server, client, entity)
        confirmed = asyncio.Event()

        async def hang(_: bytes) -> None:
            confirmed.set()
            await asyncio.Future()

        after_each_confirmation(client, hang)
        collecting = asyncio.ensure_future(client.collect(asked))
        confirming = asyncio.ensure_future(confirmed.wait())
        await asyncio.wait((collecting, confirming), return_when=asyncio.FIRST_COMPLETED)
        for each in (collecting, confirming):
            each.cancel()
    async with client_of(server, key, way) as client:
        found = await client.collect(asked)
        assert found is not None
        assert found.text("id") == asked.client.request_id


@pytest.mark.parametrize("way", WAYS)
async def test_a_response_is_collected_again_until_it_is_confirmed(
    server: Server, key: ServerKey, way: str
) -> None:
    async with client_of(server, key, way) as client:
        asked = await answered(server, client, "movement")
        found = await client.collect(asked, collector="one")
        assert found is not None
        await client.confirm(asked, collector="another")
        assert await client.collect(asked, collector="one") == found
        await client.confirm(asked, collector="one")
        assert await client.collect(asked, collector="one") is None
        await client.confirm(asked, collector="one")


@pytest.mark.parametrize("way", WAYS)
async def test_a_confirmation_whose_answer_is_lost_is_repeated(
    server: Server, key: ServerKey, way: str
) -> None:
    async with client_of(server, key, way) as client:
        asked = await answered(server, client, "offer")
        assert await client.collect(asked) is not None
        lost = [ReplyTimeout("lost") if way == "sep" else BrokerUnavailable("lost")]

        async def lose(_: bytes) -> None:
            if lost:
                raise lost.pop()

        after_each_confirmation(client, lose)
        with pytest.raises((ReplyTimeout, BrokerUnavailable)):
            await client.confirm(asked)
        await client.confirm(asked)
        assert await client.collect(asked) is None


@pytest.mark.parametrize("way", WAYS)
async def test_a_confirmation_that_is_refused_is_an_error(server: Server, key: ServerKey, way: str) -> None:
    async with client_of(server, key, way) as client:
        with pytest.raises(ClientError) as caught:
            await client.confirm(ask(), resource="service.elsewhere")
        assert caught.value.code == "gateway.envelope.destination"


FORKING = """
import os, sys
from dragoman.gateway.envelope import collection, request

asked = request("service.x", "select", client_id="c")

def tell():
    ids = {collection(asked, done=done).text("collectionId") for done in (False, True, False)}
    os.write(1, f"{' '.join(ids)}\\n".encode())

def fork(depth):
    tell()
    for _ in range(2 if depth else 0):
        child = os.fork()
        if not child:
            fork(depth - 1)
            os._exit(0)
        os.waitpid(child, 0)
    tell()

fork(2)
"""


def test_each_process_collects_under_an_id_of_its_own_also_when_it_was_forked() -> None:
    """Else the workers of a server would share one, and two of them could collect the same response."""
    ended = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, check=True, timeout=60)
    told = ended.stdout.decode().splitlines()
    # A parent, two children of it, and two of each: all tell twice, and stay at what they told.
    assert sorted(Counter(told).values()) == [2] * 7
    assert all(len(id.split()) == 1 for id in told)
