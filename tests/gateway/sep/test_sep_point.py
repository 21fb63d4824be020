"""A gateway by SEP: what is dropped off over a bad network is collected over it, once."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import httpx

from dragoman.gateway.envelope import collection, datum, from_json, to_json
from dragoman.gateway.gateway import Gateway
from dragoman.gateway.http.server import SepOptions, Server, ServerOptions
from dragoman.gateway.sep import Operation, SepClient, SepServer, ServerKey
from dragoman.gateway.sep.point import sep_point
from tests.gateway.kit import answer, ask, inside, options, running
from tests.gateway.sep.relay import Relay, Weather

PATIENCE = 60.0


async def test_a_request_is_dropped_off_and_its_answer_collected_by_datagrams() -> None:
    key = ServerKey.generate()
    async with (
        running() as gateway,
        SepServer(sep_point(gateway), key) as server,
        Relay(server.address, Weather(loss=0.2, repetition=0.2, delay=0.02)) as relay,
        SepClient(*relay.address, key.public) as client,
    ):
        asked = ask()
        receipt = await client.request(Operation.DROP_OFF, to_json(asked), PATIENCE)
        assert receipt.status == 202
        early = await client.request(Operation.COLLECT, to_json(collection(asked)), PATIENCE)
        assert (early.status, early.body) == (204, b"")
        [arrived] = await inside(gateway)
        await answer(gateway, arrived.envelope, [datum("change", "1.5")])
        found = await client.request(Operation.COLLECT, to_json(collection(asked)), PATIENCE)
        assert found.status == 200
        assert from_json(found.body).text("change") == "1.5"
        done = await client.request(Operation.COLLECT, to_json(collection(asked, done=True)), PATIENCE)
        again = await client.request(Operation.COLLECT, to_json(collection(asked)), PATIENCE)
        assert (done.status, again.status) == (204, 204)


async def test_a_response_survives_an_outage_in_which_its_client_opens_another_session() -> None:
    key = ServerKey.generate()
    async with (
        running() as gateway,
        SepServer(sep_point(gateway), key) as server,
        Relay(server.address) as relay,
        SepClient(*relay.address, key.public) as client,
    ):
        asked = ask("offer")
        await client.request(Operation.DROP_OFF, to_json(asked), PATIENCE)
        [arrived] = await inside(gateway)
        await answer(gateway, arrived.envelope, [datum("change", "1.5")])
        came = len(relay.to_client)

        def away(data: bytes) -> bytes | None:
            """Nothing reaches the client until it has given the session up."""
            down = data in relay.to_client[came:]
            return None if down and not client.counts["reopened"] else data

        relay.weather.change = away
        found = await client.request(Operation.COLLECT, to_json(collection(asked)), PATIENCE)
        assert client.counts["reopened"] >= 1
        assert gateway.audit.counts["collected", ""] >= 2, "the first answer did not reach the client"
        assert found.status == 200
        assert await client.collect(asked, timeout=PATIENCE) == from_json(found.body)
        await client.confirm(asked, timeout=PATIENCE)
        assert await client.collect(asked, timeout=PATIENCE) is None, "it was confirmed"


async def test_a_recorded_collection_takes_nothing_at_another_gateway(tmp_path: Path) -> None:
    key, shared = ServerKey.generate(), options(store=f"sqlite://{tmp_path}/gateway.db")
    async with (
        Gateway(shared) as gateway,
        Gateway(shared) as other,
        SepServer(sep_point(gateway), key) as server,
        SepServer(sep_point(other), key) as elsewhere,
        Relay(server.address) as relay,
    ):
        asked = ask("offer")
        async with SepClient(*relay.address, key.public) as client:
            early = await client.request(Operation.COLLECT, to_json(collection(asked)), PATIENCE)
            assert early.status == 204
        async with SepClient(*server.address, key.public) as client:
            await client.request(Operation.DROP_OFF, to_json(asked), PATIENCE)
            [arrived] = await inside(gateway)
            await answer(gateway, arrived.envelope, [])
            for data in relay.to_server:
                elsewhere.datagram_received(data, ("192.0.2.1", 9))
            assert elsewhere.sessions == 1
            assert await client.collect(asked, timeout=PATIENCE, collector="restarted") is not None
        assert other.audit.counts.total() == 0


async def test_mistakes_get_the_answers_that_they_get_by_http() -> None:
    key = ServerKey.generate()
    async with (
        running() as gateway,
        SepServer(sep_point(gateway), key) as server,
        SepClient(*server.address, key.public) as client,
    ):
        wrong = await client.request(Operation.DROP_OFF, b"{", PATIENCE)
        assert wrong.status == 400
        assert json.loads(wrong.body)["error"].startswith("gateway.envelope")
        stranger = await client.request(Operation.DROP_OFF, to_json(ask(token="")), PATIENCE)
        assert stranger.status == 403


def test_what_came_by_sep_is_in_the_metrics(tmp_path: Path) -> None:
    key = ServerKey.generate()
    key.write(tmp_path / "sep.key")
    sep = SepOptions(key=str(tmp_path / "sep.key"), port=0)
    with Server(ServerOptions(gateway=options(), port=0, sep=sep)) as server:
        assert server.application.sep is not None
        assert asyncio.run(_status(server.application.sep.address, key)) == 400
        text = httpx.get(f"{server.url}/metrics", timeout=PATIENCE).text
    assert re.search(r'^dragoman_gateway_sep_total{event="requests"} [1-9]', text, re.MULTILINE)
    assert re.search(r"^dragoman_gateway_sep_sessions [0-9]", text, re.MULTILINE)


async def _status(address: tuple[str, int], key: ServerKey) -> int:
    async with SepClient(*address, key.public) as client:
        return (await client.request(Operation.DROP_OFF, b"{", PATIENCE)).status
