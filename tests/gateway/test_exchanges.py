"""Every message of drop-off, collection and confirmation is lost, doubled and replayed, one after the other.

Each response reaches its owner, no other party gets it, and its request is forwarded once.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from dragoman.core.errors import BrokerUnavailable, ClientError
from dragoman.gateway.envelope import Envelope, collection, datum, to_json
from dragoman.gateway.gateway import Gateway
from dragoman.gateway.http.app import Application
from dragoman.gateway.http.client import HttpClient
from dragoman.gateway.sep import Operation, SepClient, SepServer, ServerKey
from dragoman.gateway.sep.datagram import Type
from dragoman.gateway.sep.point import sep_point
from tests.gateway.kit import Arrived, answer, ask, inside, options, token
from tests.gateway.sep.relay import Relay

PATIENCE = 60.0
FATES = ("question lost", "answer lost", "question twice", "all replayed")


class Wire(httpx.AsyncBaseTransport):
    """To two gateways in turn. ``fates`` says what becomes of each message; of all others nothing."""

    def __init__(self, gateways: tuple[Gateway, Gateway], fates: dict[int, str]) -> None:
        self._ways = [httpx.ASGITransport(Application(each)) for each in gateways]
        self._fates = fates
        self._sent: list[tuple[str, bytes]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        number, body = len(self._sent), await request.aread()
        fate = self._fates.get(number, "")
        self._sent.append((str(request.url), body))
        if fate == "question lost":
            raise httpx.ConnectError("lost")
        if fate == "all replayed":
            for url, before in list(self._sent):
                await self._arrive(number + 1, url, before)
        if fate == "question twice":
            await self._arrive(number + 1, *self._sent[-1])
        found = await self._arrive(number, *self._sent[-1])
        if fate == "answer lost":
            raise httpx.ReadError("lost")
        return found

    async def _arrive(self, number: int, url: str, body: bytes) -> httpx.Response:
        headers = {"content-type": "application/json"}
        request = httpx.Request("POST", url, content=body, headers=headers)
        answer = await self._ways[number % 2].handle_async_request(request)
        await answer.aread()
        return answer


@asynccontextmanager
async def two_gateways(folder: Path) -> AsyncIterator[tuple[Gateway, Gateway]]:
    shared = options(store=f"sqlite://{folder}/gateway.db")
    async with Gateway(shared) as one, Gateway(shared) as other:
        yield one, other


async def forwarded(gateway: Gateway, asked: Envelope) -> list[Arrived]:
    found = await inside(gateway)
    return [each for each in found if each.envelope.client.request_id == asked.client.request_id]


async def got_by_strangers(gateway: Gateway, asked: Envelope) -> list[bytes]:
    tries = [
        collection(asked, token=shown, collector=id)
        for shown in ("", token("bob"))
        for id in (None, "", "stranger")
    ]
    answers = [await gateway.collection.collect(to_json(each)) for each in tries]
    return [each for each in answers if each is not None]


def combinations() -> list[dict[int, str]]:
    single = [{at: fate} for at in range(5) for fate in FATES]
    chance = random.Random(1)
    several = [{at: chance.choice((*FATES, "")) for at in range(8)} for _ in range(40)]
    return single + several


@pytest.mark.parametrize("entity", ["movement", "offer"])
async def test_by_http_a_response_reaches_its_owner_whatever_becomes_of_one_message(
    entity: str, tmp_path: Path
) -> None:
    async with two_gateways(tmp_path) as gateways:
        for fates in combinations():
            asked = ask(entity)
            async with httpx.AsyncClient(transport=Wire(gateways, fates)) as web:
                client = HttpClient("http://gateway", web=web)
                # The first question is too early.
                await tried(lambda: client.collect(asked))  # noqa: B023
                await tried(lambda: client.drop_off(asked))  # noqa: B023
                [arrived] = await forwarded(gateways[0], asked)
                await answer(gateways[1], arrived.envelope, [datum("id", asked.client.request_id)])
                assert await got_by_strangers(gateways[0], asked) == []
                found = await tried(lambda: client.collect(asked))  # noqa: B023
                assert found is not None, fates
                assert found.text("id") == asked.client.request_id
                await tried(lambda: client.confirm(asked))  # noqa: B023
                assert await got_by_strangers(gateways[0], asked) == []
                assert len(await forwarded(gateways[0], asked)) == 1
                for id in (None, "another"):
                    again = to_json(collection(asked, collector=id))
                    assert await gateways[1].collection.collect(again) is None


async def tried(work):
    """Again and again, until it is answered."""
    for _ in range(20):
        try:
            return await work()
        except BrokerUnavailable:
            continue
        except ClientError as error:
            if error.where["status"] != 503:
                raise
    raise AssertionError("It was never answered.")


class Lane(Relay):
    """To the first of two servers; what goes there can be sent to the other one, too."""

    elsewhere: SepServer
    fate = ""
    at = 0

    def meet(self, fate: str, at: int) -> None:
        self.fate, self.at = fate, at
        self.to_server.clear()
        self.to_client.clear()

    def _through(self, data, way, to):
        question = to is None
        number = len(self.to_server if question else self.to_client) - 1
        if number == self.at:
            if self.fate == ("question lost" if question else "answer lost"):
                return
            if self.fate == ("question twice" if question else "answer twice"):
                super()._through(data, way, to)
            if self.fate == "all replayed" and question:
                for each in list(self.to_server):
                    self.elsewhere.datagram_received(each, ("192.0.2.1", 9))
                    super()._through(each, way, to)
        super()._through(data, way, to)


@pytest.mark.parametrize("fate", [*FATES, "answer twice"])
async def test_by_sep_a_response_reaches_its_owner_whatever_becomes_of_one_datagram(
    fate: str, tmp_path: Path
) -> None:
    key = ServerKey.generate()
    async with (
        two_gateways(tmp_path) as (gateway, other),
        SepServer(sep_point(gateway), key) as server,
        SepServer(sep_point(other), key) as elsewhere,
        Lane(server.address) as relay,
    ):
        relay.elsewhere = elsewhere
        for at in range(10):
            asked = ask("offer" if at % 2 else "movement")
            relay.meet(fate, at)
            async with SepClient(*relay.address, key.public) as client:
                assert await client.collect(asked, timeout=PATIENCE) is None
                receipt = await client.request(Operation.DROP_OFF, to_json(asked), PATIENCE)
                assert receipt.status == 202
                [arrived] = await forwarded(gateway, asked)
                await answer(gateway, arrived.envelope, [datum("id", asked.client.request_id)])
                assert await got_by_strangers(gateway, asked) == []
                found = await client.collect(asked, timeout=PATIENCE)
                assert found is not None
                assert found.text("id") == asked.client.request_id
                await client.confirm(asked, timeout=PATIENCE)
                assert len(await forwarded(gateway, asked)) == 1
            kinds = {data[0] for data in relay.to_server}
            assert kinds <= {Type.INIT, Type.EARLY, Type.DATA}
            for each in (gateway, other):
                assert await each.collection.collect(to_json(collection(asked, collector="x"))) is None
        assert other.audit.counts["collected", ""] == other.audit.counts["arrived", ""] == 0
