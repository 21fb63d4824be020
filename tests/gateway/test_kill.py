"""What a gateway has accepted is not lost, however it ends."""

from __future__ import annotations

import asyncio
import re
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


async def collected(web: httpx.AsyncClient, of: Envelope) -> str | None:
    async with asyncio.timeout(90):
        while True:
            answer = await web.post("/collection?wait=10", content=to_json(collection(of)), headers=JSON)
            if answer.status_code == 200:
                return from_json(answer.content).text("done")
