"""Following other nodes by the history, whose numbers may be committed out of order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from dragoman.core.database import TransactionConflict
from dragoman.registry import RegistryService
from dragoman.registry.engine import Engine
from dragoman.registry.http.follow import EVERYTHING, Follower
from dragoman.registry.name import ContractName


@pytest.fixture
def engine(store: str) -> Iterator[Engine]:
    engine = RegistryService.open(store).engine
    yield engine
    # The numbers below are not the database's own, which would meet them again.
    with engine.database.transaction() as tx:
        tx.execute("DELETE FROM registry_history")
    engine.close()


@pytest.fixture
def told(engine: Engine) -> list[ContractName]:
    told: list[ContractName] = []
    engine.on_change(told.append)
    return told


def happens(engine: Engine, *ids: int, action: str = "register") -> None:
    """As if another node had committed changes with these numbers."""
    columns = "id, happened, author, action, context, contract, version, detail"
    sql = f"INSERT INTO registry_history ({columns}) VALUES (?, 0, 'other', ?, '.', ?, 1, '{{}}')"
    with engine.database.transaction() as tx:
        for id in ids:
            tx.execute(sql, (id, action, f"c{id}"))


async def test_each_change_is_told_once(engine: Engine, told: list[ContractName]) -> None:
    happens(engine, 1)
    follower = Follower(engine)
    await follower.look()
    told.clear()
    happens(engine, 2, 3)
    await follower.look()
    await follower.look()
    assert told == [ContractName(".", "c2"), ContractName(".", "c3")]


async def test_a_change_that_is_committed_late_is_told_too(engine: Engine, told: list[ContractName]) -> None:
    happens(engine, 1)
    follower = Follower(engine)
    await follower.look()
    happens(engine, 500)
    await follower.look()
    told.clear()
    happens(engine, 2, 300)
    await follower.look()
    await follower.look()
    assert sorted(told) == [ContractName(".", "c2"), ContractName(".", "c300")]


async def test_when_too_much_is_missing_everything_is_forgotten(
    engine: Engine, told: list[ContractName]
) -> None:
    happens(engine, 1)
    follower = Follower(engine)
    await follower.look()
    happens(engine, 5000)
    await follower.look()
    told.clear()
    await follower.look()
    assert told == [EVERYTHING]


async def test_a_change_of_settings_touches_everything(engine: Engine, told: list[ContractName]) -> None:
    happens(engine, 1)
    follower = Follower(engine)
    await follower.look()
    told.clear()
    happens(engine, 2, action="configure")
    await follower.look()
    assert told == [EVERYTHING]


async def test_it_goes_on_whatever_the_database_says(
    engine: Engine, told: list[ContractName], monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower(engine)
    looked = asyncio.Event()
    look = follower.look

    async def fail() -> None:
        monkeypatch.setattr(follower, "look", succeed)
        raise TransactionConflict("somebody else was faster")

    async def succeed() -> None:
        await look()
        looked.set()

    monkeypatch.setattr(follower, "look", fail)
    following = asyncio.create_task(follower.run())
    await asyncio.wait_for(looked.wait(), 30)
    following.cancel()
    await asyncio.wait([following])
    assert following.cancelled()
