"""Requests on every broker: each requester gets its own replies and nobody else's."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman import Client, endpoint
from dragoman.client.headers import MESSAGE_ID
from dragoman.core.broker import Broker
from dragoman.core.database import Transaction
from dragoman.core.loading import BROKERS, load, scheme_of
from dragoman.core.registry import Registry
from tests.client.loans import LoanReply, LoanRequest
from tests.services.mosquitto import Mosquitto

COUNT = 40


@pytest.fixture(params=["embedded", "kafka", "rabbitmq", "nats", "mosquitto", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "embedded":
        return f"embedded://{tmp_path / 'broker'}"
    return str(request.getfixturevalue(f"{request.param}_server").url)


async def test_many_requesters_each_get_their_own_replies(url: str, registry: Registry) -> None:
    channel = f"loans-{secrets.token_hex(4)}"
    others = await _addresses(url)

    @endpoint(channel, group=f"{channel}-bank")
    async def quote(request: LoanRequest) -> LoanReply:
        return LoanReply(request.request_id, 3.4)

    @endpoint(f"{channel}-offers", group=f"{channel}-offers")
    async def offers(request: LoanRequest) -> AsyncIterator[LoanReply]:
        for number in range(5):
            yield LoanReply(request.request_id, float(number))

    async with (
        Client(url, registry, [quote, offers]),
        Client(url, registry) as one,
        Client(url, registry) as two,
    ):
        replies = await asyncio.gather(
            *(
                client.request(channel, LoanRequest(number, 1.0, 1), reply=LoanReply, timeout=120)
                for number in range(COUNT)
                for client in (one, two)
            )
        )
        assert [each.request_id for each in replies] == [n for n in range(COUNT) for _ in range(2)]
        for client in (one, two):
            assert client.metrics.replies.received - client.metrics.replies.repeated == COUNT
        asked = one.request_stream(f"{channel}-offers", LoanRequest(1, 1.0, 1), reply=LoanReply, timeout=120)
        assert [each.interest_rate async for each in asked] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert await _addresses(url) == others, "they go with their clients"


async def _addresses(url: str) -> set[str]:
    """The channels that replies come on."""
    broker: Broker = load(BROKERS, scheme_of(url))(url)
    await broker.connect()
    try:
        return {name for name in await broker.channels() if ".replies." in name}
    finally:
        await broker.close()


async def test_a_message_that_is_sent_twice_has_its_effect_once(
    mosquitto_server: Mosquitto, registry: Registry, tmp_path: Path
) -> None:
    """Where messages have no position that lasts, they are told apart by ids that producers add."""
    channel, database = f"loans-{secrets.token_hex(4)}", f"sqlite://{tmp_path / 'app.db'}"
    seen: list[int] = []

    @endpoint(channel, group=f"{channel}-bank")
    def quote(request: LoanRequest, tx: Transaction) -> LoanReply:
        seen.append(request.request_id)
        return LoanReply(request.request_id, float(len(seen)))

    for _ in range(2):  # The second client counts its messages anew.
        async with Client(mosquitto_server.url, registry, [quote], database=database) as client:
            for number in (1, 2):
                await client.request(channel, LoanRequest(number, 1.0, 1), reply=LoanReply, timeout=120)
            for _ in range(2):
                known = await client.request(
                    channel,
                    LoanRequest(3, 1.0, 1),
                    reply=LoanReply,
                    timeout=120,
                    headers={MESSAGE_ID: "loan-3"},
                )
                assert known.interest_rate == 3.0
    assert seen == [1, 2, 3, 1, 2]
