"""Sagas on every broker: completed, refused by a declared error, and repeated after a failure."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from dragoman import Client, EndpointOptions, RetryOptions, endpoint, record
from dragoman.client.saga import Saga, Step, orchestrate
from dragoman.client.saga.state import State
from dragoman.core.database import Transaction
from dragoman.core.registry import Registry

PATIENCE = 120.0
ONCE = EndpointOptions(retry=RetryOptions(attempts=1))
AGAIN = RetryOptions(attempts=3, delay=0.0, jitter=0.0)


@record
class Journey:
    traveller: str


@record
class Seat:
    traveller: str
    cancelled: bool = False


@record
class Taken:
    reference: str


@record
class Declined(Exception):
    reason: str


@pytest.fixture(params=["embedded", "kafka", "rabbitmq", "nats", "mosquitto", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "embedded":
        return f"embedded://{tmp_path / 'broker'}"
    return str(request.getfixturevalue(f"{request.param}_server").url)


def seat(journey: Journey) -> Seat:
    return Seat(journey.traveller)


def cancelled(journey: Journey) -> Seat:
    return Seat(journey.traveller, cancelled=True)


async def test_a_saga_ends_as_its_participants_answer(url: str, registry: Registry, tmp_path: Path) -> None:
    """By a reply, a declared error, and an error that is told when the command becomes a dead letter."""
    run = secrets.token_hex(4)
    flights, payments = f"flights-{run}", f"payments-{run}"
    journey = Saga(
        f"journey-{run}",
        Journey,
        (
            Step("flight", flights, seat, compensation=cancelled, retry=AGAIN),
            Step("payment", payments, seat, pivot=True, retry=AGAIN),
        ),
    )
    calls: list[str] = []

    @endpoint(flights, group=f"{flights}-airline", options=ONCE)
    def airline(wish: Seat, tx: Transaction) -> Taken:
        calls.append(f"{wish.traveller} {'cancels' if wish.cancelled else 'flies'}")
        return Taken("F-1")

    @endpoint(payments, group=f"{payments}-bank", raises=[Declined], options=ONCE)
    def bank(wish: Seat, tx: Transaction) -> Taken:
        calls.append(f"{wish.traveller} pays")
        if wish.traveller == "Bob":
            raise Declined("No money.")
        if wish.traveller == "Eve" and calls.count("Eve pays") == 1:
            raise RuntimeError("The bank fails once.")
        return Taken("P-1")

    saga = orchestrate(journey)
    database = f"sqlite://{tmp_path / 'app.db'}"
    async with Client(url, registry, [saga, airline, bank], database=database) as client, saga.watch():
        ada = await saga.ended(await saga.start(Journey("Ada")), PATIENCE)
        bob = await saga.ended(await saga.start(Journey("Bob")), PATIENCE)
        eve = await saga.ended(await saga.start(Journey("Eve")), PATIENCE)
        answers = client.metrics.of(journey.replies)
        assert (answers.dead, answers.invalid) == (0, 0)
    assert [each.state for each in (ada, bob, eve)] == [State.COMPLETED, State.REJECTED, State.COMPLETED]
    assert bob.problem == "Declined"
    assert [call for call in calls if call.startswith("Bob")] == ["Bob flies", "Bob pays", "Bob cancels"]
    assert [call for call in calls if call.startswith("Eve")] == ["Eve flies", "Eve pays", "Eve pays"]
