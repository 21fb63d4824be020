"""What a gateway has accepted is not lost, however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from dragoman import Client
from dragoman.gateway.envelope import Datum, Envelope, collection, datum, from_json, request, to_json
from dragoman.gateway.orchestration import on, orchestrator
from tests.gateway.test_http import JSON

CONFIG = """
[[public]]
resource = "service.shares"
level = "basic"
"""


@contextmanager
def gateway(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "dragoman.cli", "gateway", "serve", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--config", "gateway.toml"], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        found = re.search(r"http://[\d.]+:\d+", process.stderr.readline())
        assert found is not None
        yield found.group(), process
    finally:
        process.kill()
        process.communicate()


async def dropped(web: httpx.AsyncClient, envelope: Envelope) -> bool:
    try:
        answer = await web.post("/drop-off", content=to_json(envelope), headers=JSON)
    except httpx.TransportError:
        return False
    return answer.status_code == 202


async def test_a_killed_gateway_loses_nothing_that_it_accepted(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(CONFIG)
    asked = [request("service.shares", "insert", client_id="c", security="1") for _ in range(60)]
    accepted: list[Envelope] = []
    with gateway(tmp_path) as (url, process):
        async with httpx.AsyncClient(base_url=url, timeout=60.0) as web:

            async def drop(envelope: Envelope) -> None:
                if await dropped(web, envelope):
                    accepted.append(envelope)
                if len(accepted) == 30:
                    process.kill()

            for start in range(0, len(asked), 10):
                await asyncio.gather(*(drop(each) for each in asked[start : start + 10]))
    assert 30 <= len(accepted) < 60

    @orchestrator("service.shares")
    class Shares:
        @on("insert")
        async def insert(self, envelope: Envelope) -> list[Datum]:
            return [datum("done", envelope.client.request_id)]

    places = (f"embedded://{tmp_path}/.dragoman", f"sqlite://{tmp_path}/.dragoman/registry.db")
    with gateway(tmp_path) as (url, _):
        async with httpx.AsyncClient(base_url=url, timeout=60.0) as web, Client(*places, [Shares]):
            for each in accepted:
                assert await collected(web, each) == each.client.request_id


async def test_a_response_is_not_lost_with_the_client_that_left_or_the_gateway_that_was_killed(
    tmp_path: Path,
) -> None:
    (tmp_path / "gateway.toml").write_text(f'{CONFIG}collect = "once"\n')
    asked = request("service.shares", "insert", client_id="c", security="1")

    @orchestrator("service.shares")
    class Shares:
        @on("insert")
        async def insert(self, envelope: Envelope) -> list[Datum]:
            return [datum("done", envelope.client.request_id)]

    places = (f"embedded://{tmp_path}/.dragoman", f"sqlite://{tmp_path}/.dragoman/registry.db")
    with gateway(tmp_path) as (url, _):
        async with httpx.AsyncClient(base_url=url, timeout=60.0) as web, Client(*places, [Shares]) as client:
            assert await dropped(web, asked)
            await until_stored(tmp_path, "SELECT count(*) FROM gateway_responses")
            # Otherwise it comes again after the kill, and is stored again.
            await until_acknowledged(client)
        with unread(url, to_json(collection(asked))):
            await until_stored(tmp_path, "SELECT count(*) FROM gateway_responses WHERE leased_until > 0")
    for _ in range(2):
        with gateway(tmp_path) as (url, _):
            async with httpx.AsyncClient(base_url=url, timeout=60.0) as web:
                other = to_json(collection(asked, collector="another"))
                assert (await web.post("/collection", content=other, headers=JSON)).status_code == 204
                assert await collected(web, asked) == asked.client.request_id
    with gateway(tmp_path) as (url, _):
        async with httpx.AsyncClient(base_url=url, timeout=60.0) as web:
            done = to_json(collection(asked, done=True))
            assert (await web.post("/collection", content=done, headers=JSON)).status_code == 204
    with gateway(tmp_path) as (url, _):
        async with httpx.AsyncClient(base_url=url, timeout=60.0) as web:
            again = await web.post("/collection", content=to_json(collection(asked)), headers=JSON)
            assert again.status_code == 204


@contextmanager
def unread(url: str, body: bytes) -> Iterator[None]:
    """A client that asks, and leaves without reading the answer."""
    host, port = url.removeprefix("http://").split(":")
    head = f"POST /collection HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(f"{head}content-type: application/json\r\n\r\n".encode() + body)
        yield


async def until_acknowledged(client: Client) -> None:
    """Everything that was published to any channel is dealt with, by all groups."""
    async with asyncio.timeout(60):
        while True:
            lags = [each for name in await client.broker.channels() for each in await client.broker.lag(name)]
            if lags and not any(each.behind for each in lags):
                return
            await asyncio.sleep(0.02)


async def until_stored(folder: Path, counting: str) -> None:
    async with asyncio.timeout(60):
        while True:
            with contextlib.closing(sqlite3.connect(folder / ".dragoman/gateway.db", timeout=60)) as store:
                if store.execute(counting).fetchone() == (1,):
                    return
            await asyncio.sleep(0.02)


async def collected(web: httpx.AsyncClient, of: Envelope) -> str | None:
    async with asyncio.timeout(90):
        while True:
            answer = await web.post("/collection?wait=10", content=to_json(collection(of)), headers=JSON)
            if answer.status_code == 200:
                return from_json(answer.content).text("done")
