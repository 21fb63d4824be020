"""What users' own tests stand on: the real loop, virtual time, and a look at every channel."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import pytest

from dragoman import CircuitBreaker, EndpointOptions, Message, RetryOptions, Throttle, To, endpoint
from dragoman.client.transactional.outbox import Outbox
from dragoman.core.channel import Channel
from dragoman.core.database import Transaction
from dragoman.testing import Workbench
from tests.client.loans import LoanReply, LoanRequest

HOURS = RetryOptions(attempts=4, delay=600.0, longest=36_000.0, jitter=0.0)


async def test_replies_are_seen_in_their_channel() -> None:
    @endpoint("loan.requests", reply_to="loan.replies")
    async def on_request(request: LoanRequest) -> LoanReply:
        return LoanReply(request.request_id, 3.4)

    async with Workbench([on_request]) as bench:
        for number in range(20):
            await bench.client.publish("loan.requests", LoanRequest(number, 1.0, 1), key="k")
        await bench.handled()
        assert await bench.values("loan.replies", LoanReply) == [LoanReply(n, 3.4) for n in range(20)]
        await bench.expect("loan.replies", LoanReply(19, 3.4), LoanReply(0, 3.4))
        assert await bench.messages("nowhere") == []


async def test_hours_of_backoff_pass_at_once() -> None:
    seen: list[float] = []

    @endpoint("loan.requests", options=EndpointOptions(retry=HOURS))
    async def on_request(request: LoanRequest) -> None:
        seen.append(bench.clock.now())
        raise ValueError("It never works.")

    async with Workbench([on_request]) as bench:
        await bench.client.publish("loan.requests", LoanRequest(1, 1.0, 1))
        await bench.handled()
        [letter] = await bench.dead("loan.requests")
    assert letter.code == "endpoint.failed"
    assert letter.reason == "It never works."
    rests = [after - before for before, after in pairwise(seen)]
    assert len(rests) == 3
    assert all(rest >= wanted for rest, wanted in zip(rests, (600, 1200, 2400), strict=True))


async def test_the_rest_of_a_breaker_and_the_turns_of_a_throttle_pass_at_once() -> None:
    seen: list[int] = []
    patient = EndpointOptions(retry=RetryOptions(attempts=2))

    @endpoint(
        "loan.requests",
        options=patient,
        middleware=[Throttle(rate=0.001), CircuitBreaker(failures=1, rest=36_000.0)],
    )
    async def on_request(request: LoanRequest) -> None:
        seen.append(request.request_id)
        if len(seen) == 1:
            raise ValueError

    async with Workbench([on_request]) as bench:
        for number in range(3):
            await bench.client.publish("loan.requests", LoanRequest(number, 1.0, 1), partition=0)
        await bench.handled()
        assert await bench.dead("loan.requests") == []
    assert seen == [0, 0, 1, 2]


async def test_time_stands_still_unless_it_is_moved() -> None:
    @endpoint("loan.requests")
    async def on_request(request: LoanRequest) -> None: ...

    async with Workbench([on_request]) as bench:
        client = bench.client
        await client.publish("loan.requests", LoanRequest(1, 1.0, 1), delay=60.0, expires_in=30.0)
        await client.publish("loan.requests", LoanRequest(2, 1.0, 1), delay=60.0, expires_in=90.0)
        assert await bench.messages("loan.requests") == []
        bench.clock.advance(61.0)
        await bench.handled()
        [letter] = await bench.dead("loan.requests")
        assert letter.code == "message.expired"
        assert client.metrics.of("loan.requests").handled == 1


async def test_what_cannot_be_read_is_found_among_the_invalid() -> None:
    @endpoint("loan.requests")
    async def on_request(request: LoanRequest) -> None: ...

    async with Workbench([on_request]) as bench:
        await bench.broker.publish([Message("loan.requests", b"not a frame")])
        await bench.handled()
        [letter] = await bench.invalid("loan.requests")
    assert letter.code == "message.frame.foreign"
    assert letter.message.payload == b"not a frame"


async def test_what_never_comes_fails_with_what_is_there() -> None:
    async with Workbench() as bench:
        await bench.client.publish("loan.replies", LoanReply(1, 1.0))
        with pytest.raises(AssertionError, match=r"has \[LoanReply.* but not \[LoanReply"):
            await bench.expect("loan.replies", LoanReply(2, 1.0), seconds=0.05)


async def test_what_is_never_handled_fails_with_what_is_left() -> None:
    @endpoint("loan.requests", options=EndpointOptions(dead_letter=None, retry=RetryOptions(attempts=1)))
    async def never(request: LoanRequest) -> None:
        raise ValueError("It never works.")

    async with Workbench([never]) as bench:
        await bench.client.publish("loan.requests", LoanRequest(1, 1.0, 1))
        with pytest.raises(AssertionError, match=r"1 of loan\.requests for default"):
            await bench.handled(seconds=0.2)


async def test_a_bench_may_have_a_database(tmp_path: Path) -> None:
    @endpoint("loan.requests")
    def on_request(
        request: LoanRequest, tx: Transaction, replies: Annotated[Outbox[LoanReply], To("loan.replies")]
    ) -> None:
        replies.publish(tx, LoanReply(request.request_id, 3.4))

    async with Workbench([on_request], database=f"sqlite://{tmp_path / 'app.db'}") as bench:
        await bench.client.publish("loan.requests", LoanRequest(7, 1.0, 1))
        await bench.expect("loan.replies", LoanReply(7, 3.4))


async def test_benches_do_not_share_anything() -> None:
    async with Workbench() as one, Workbench() as two:
        await one.broker.create(Channel("mine"))
        assert await two.broker.channels() == []


async def test_the_fixture_makes_workbenches(workbench: Callable[..., Workbench]) -> None:
    @endpoint("loan.requests", reply_to="loan.replies")
    async def on_request(request: LoanRequest) -> LoanReply:
        return LoanReply(request.request_id, 3.4)

    async with workbench([on_request]) as bench:
        await bench.client.publish("loan.requests", LoanRequest(7, 1.0, 1))
        await bench.expect("loan.replies", LoanReply(7, 3.4))
