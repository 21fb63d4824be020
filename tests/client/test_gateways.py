"""Messaging gateway and service activator: programs that see no messages on either side."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dragoman import Client
from dragoman.adapters.memory import MemoryBroker
from dragoman.client.activation import activate
from dragoman.client.messaging_gateway import gateway, sends
from dragoman.core.errors import ConfigurationError
from dragoman.core.registry import Registry
from tests.client.conftest import payloads
from tests.client.loans import LoanReply, LoanRequest
from tests.client.waiting import until


class Loans:
    """An interface."""

    @sends("loan.requests", timeout=60.0)
    async def quote(self, request: LoanRequest) -> LoanReply:
        raise NotImplementedError

    @sends("loan.offers")
    def offers(self, request: LoanRequest) -> AsyncIterator[LoanReply]:
        raise NotImplementedError

    @sends("loan.granted", key="request_id")
    async def granted(self, reply: LoanReply) -> None: ...


class Bank:
    """A service that knows nothing of messages."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.granted: list[LoanReply] = []

    async def quote(self, request: LoanRequest) -> LoanReply:
        return LoanReply(request.request_id, self.rate)

    async def offers(self, request: LoanRequest) -> AsyncIterator[LoanReply]:
        for month in range(3):
            yield LoanReply(request.request_id, self.rate + month)

    def on_granted(self, reply: LoanReply) -> None:
        self.granted.append(reply)


async def test_a_gateway_and_a_service_meet_without_knowing_of_messages(
    memory: MemoryBroker, registry: Registry
) -> None:
    bank = Bank(2.0)
    activated = [
        activate("loan.requests", bank.quote),
        activate("loan.offers", bank.offers, group="offers"),
        activate("loan.granted", bank.on_granted, group="ledger"),
    ]
    async with Client(memory, registry, activated) as client:
        loans = gateway(Loans, client)
        assert isinstance(loans, Loans)
        assert await loans.quote(LoanRequest(1, 1.0, 1)) == LoanReply(1, 2.0)
        rates = [each.interest_rate async for each in loans.offers(LoanRequest(1, 1.0, 1))]
        assert rates == [2.0, 3.0, 4.0]
        await loans.granted(LoanReply(7, 2.0))
        await until(lambda: bank.granted)
    assert bank.granted == [LoanReply(7, 2.0)]
    [sent] = payloads(memory, "loan.granted")
    assert sent.key == b"7"
    assert await bank.quote(LoanRequest(2, 1.0, 1)) == LoanReply(2, 2.0), "it is still a plain method"


class Silent:
    async def quote(self, request: LoanRequest) -> LoanReply:
        raise NotImplementedError


class Vague:
    @sends("loan.requests")
    async def quote(self, request: LoanRequest, hurry: bool) -> LoanReply:
        raise NotImplementedError


class Odd:
    @sends("loan.requests")
    async def quote(self, request: LoanRequest) -> int:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("interface", "reason"), [(Silent, "sends nothing"), (Vague, "one record"), (Odd, "neither a record")]
)
async def test_an_interface_that_cannot_be_sent_is_refused(
    memory: MemoryBroker, registry: Registry, interface: type, reason: str
) -> None:
    async with Client(memory, registry) as client:
        with pytest.raises(ConfigurationError, match=reason):
            gateway(interface, client)
