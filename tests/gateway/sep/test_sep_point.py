"""A gateway by SEP: what is dropped off over a bad network is collected over it, once."""

from __future__ import annotations

import json

from dragoman.gateway.envelope import collection, datum, from_json, to_json
from dragoman.gateway.sep import Operation, SepClient, SepServer, ServerKey
from dragoman.gateway.sep.point import sep_point
from tests.gateway.kit import answer, ask, inside, running
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
        again = await client.request(Operation.COLLECT, to_json(collection(asked)), PATIENCE)
        assert again.status == 204


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
