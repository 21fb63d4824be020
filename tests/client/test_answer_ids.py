"""Answers carry a message id where messages have no position by which they could be told apart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Client, EndpointOptions, RetryOptions, endpoint, record
from dragoman.adapters.memory import MemoryBroker
from dragoman.client.assembly import Assembly
from dragoman.client.delivery import Delivery, Route
from dragoman.client.headers import (
    CORRELATION_ID,
    ERROR_CODE,
    EXPIRES_AT,
    MESSAGE_ID,
    RAISED,
    REPLY_END,
    REPLY_NUMBER,
    REPLY_TO,
)
from dragoman.client.reply import Answers
from dragoman.client.transactional.identity import answer_id
from dragoman.core.channel import Channel
from dragoman.core.database import Transaction
from dragoman.core.message import Message
from dragoman.core.registry import Registry
from tests.client.conftest import payloads
from tests.client.loans import LoanReply, LoanRequest
from tests.client.waiting import until

ONCE = EndpointOptions(retry=RetryOptions(attempts=1))


@record
class Turned(Exception):
    reason: str


@pytest.fixture
def nameless(memory: MemoryBroker) -> MemoryBroker:
    """As MQTT: messages have no position that lasts."""
    memory.capabilities = replace(memory.capabilities, replay=False)
    return memory


@endpoint("replying", group="a")
async def replying(request: LoanRequest) -> LoanReply:
    return LoanReply(request.request_id, 1.0)


@endpoint("streaming", group="c")
async def streaming(request: LoanRequest) -> AsyncIterator[LoanReply]:
    for number in range(3):
        yield LoanReply(request.request_id, float(number))


@endpoint("declaring", group="d", raises=[Turned])
async def declaring(request: LoanRequest) -> LoanReply:
    raise Turned("No.")


@endpoint("failing", group="e", options=ONCE)
async def failing(request: LoanRequest) -> LoanReply:
    raise RuntimeError("Broken.")


ANSWERING = [replying, streaming, declaring, failing]


async def answers(client: Client, broker: MemoryBroker, channel: str, count: int, **more: str) -> list[Any]:
    """All answers to one request."""
    address = f"answers.{channel}"
    await broker.create(Channel(address))
    before = len(payloads(broker, address))
    given = {REPLY_TO: address, CORRELATION_ID: "c-1", **more}
    await client.publish(channel, LoanRequest(1, 1.0, 1), headers=given)
    await until(lambda: len(payloads(broker, address)) >= before + count)
    return payloads(broker, address)[before:]


@pytest.mark.parametrize(
    ("channel", "marks"),
    [
        ("replying", [None]),
        ("streaming", [REPLY_NUMBER] * 3 + [REPLY_END]),
        ("declaring", [RAISED]),
        ("failing", [ERROR_CODE]),
    ],
)
async def test_each_answer_has_an_id_of_its_own(
    channel: str, marks: list[str | None], nameless: MemoryBroker, registry: Registry
) -> None:
    async with Client(nameless, registry, ANSWERING) as client:
        found = [
            *await answers(client, nameless, channel, len(marks)),
            *await answers(client, nameless, channel, len(marks)),
        ]
    for answer, mark in zip(found, marks * 2, strict=True):
        assert mark is None or answer.header(mark) is not None
        assert [name for name, _ in answer.headers].count(MESSAGE_ID) == 1
    assert len({answer.header(MESSAGE_ID) for answer in found}) == len(found), "two requests, two answers"


@pytest.mark.parametrize(("channel", "count"), [("replying", 1), ("streaming", 4)])
async def test_a_repeated_answer_has_the_id_of_the_first(
    channel: str, count: int, nameless: MemoryBroker, registry: Registry
) -> None:
    async with Client(nameless, registry, ANSWERING) as client:
        first = await answers(client, nameless, channel, count, **{MESSAGE_ID: "request-1"})
        again = await answers(client, nameless, channel, count, **{MESSAGE_ID: "request-1"})
        other = await answers(client, nameless, channel, count, **{MESSAGE_ID: "request-2"})
    ids = [[each.header(MESSAGE_ID) for each in some] for some in (first, again, other)]
    assert ids[0] == ids[1]
    assert not {*ids[0]} & {*ids[2]}


async def test_when_a_repeated_answer_expires_does_not_change_its_id(
    nameless: MemoryBroker, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a model may say; the moment is another one each time."""
    lasting = iter((60.0, 120.0))

    async def expiring(self: Assembly, *given: Any) -> Answers | None:
        found = await made(self, *given)
        return found and replace(found, expires_in=next(lasting))

    made = Assembly._answers
    monkeypatch.setattr(Assembly, "_answers", expiring)
    found = []
    for _ in range(2):
        async with Client(nameless, registry, [replying]) as client:
            found += await answers(client, nameless, "replying", 1, **{MESSAGE_ID: "request-1"})
    assert found[0].header(EXPIRES_AT) != found[1].header(EXPIRES_AT)
    assert found[0].header(MESSAGE_ID) == found[1].header(MESSAGE_ID) is not None


@pytest.mark.parametrize("verdict", ["reply", "declared"])
async def test_an_answer_that_is_remembered_is_sent_again_under_its_id(
    verdict: str, nameless: MemoryBroker, registry: Registry, tmp_path: Path
) -> None:
    @endpoint("remembering", group="f", raises=[Turned])
    def remembering(request: LoanRequest, tx: Transaction) -> LoanReply:
        if verdict == "declared":
            raise Turned("No.")
        return LoanReply(request.request_id, 1.0)

    async with Client(nameless, registry, [remembering], database=f"sqlite://{tmp_path / 'a.db'}") as client:
        [first] = await answers(client, nameless, "remembering", 1, **{MESSAGE_ID: "request-1"})
        [again] = await answers(client, nameless, "remembering", 1, **{MESSAGE_ID: "request-1"})
        assert client.metrics.of("remembering").repeated == 1
    assert first.header(MESSAGE_ID) == again.header(MESSAGE_ID) is not None


async def test_an_endpoint_with_a_transaction_takes_answers(
    nameless: MemoryBroker, registry: Registry, tmp_path: Path
) -> None:
    """As an orchestrator does. It cannot take a message that has no identity."""
    seen: list[int] = []

    @endpoint("answers.replying", group="g")
    def on_answer(reply: LoanReply, tx: Transaction) -> None:
        seen.append(reply.request_id)

    database = f"sqlite://{tmp_path / 'a.db'}"
    async with Client(nameless, registry, [replying, on_answer], database=database) as client:
        for _ in range(3):
            await answers(client, nameless, "replying", 1, **{MESSAGE_ID: "request-1"})
        counters = client.metrics.of("answers.replying")
        await until(lambda: counters.handled == 3)
        assert (counters.repeated, counters.dead) == (2, 0)
    assert seen == [1]


PARTS = st.binary(max_size=4)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(PARTS, PARTS, PARTS, st.text(max_size=3), PARTS), min_size=2, max_size=2))
def test_answers_have_one_id_if_and_only_if_they_are_alike(pair: list[Any]) -> None:
    """However their parts are cut: no two of them run together."""

    def id(request: bytes, name: bytes, value: bytes, channel: str, payload: bytes) -> bytes:
        route = Route("endpoint", "group", lambda frame: frame)
        delivery = Delivery(Message("asked", None, headers=((MESSAGE_ID, request),)), route)
        return answer_id(delivery, Message(channel, payload, headers=((name.hex(), value),)))

    assert (id(*pair[0]) == id(*pair[1])) == (pair[0] == pair[1])
