"""What every store promises, on each database."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.core.errors import ConfigurationError, Conflict, NotNow
from dragoman.gateway.store.opening import open_store
from dragoman.gateway.store.port import Claim, Collect, Held, Place, Store, StoredKey, Ticket
from tests.gateway.stores import KINDS, opened, store_url
from tests.services.fixtures import running
from tests.services.redis import Redis


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with opened(store_url(request.param, request, tmp_path)) as store:
        yield store


@pytest.fixture
def now() -> float:
    return time.time()


def a_ticket(now: float) -> Ticket:
    return Ticket(secrets.token_hex(16), "digest", now, now + 60)


def a_response(now: float, collect: Collect = Collect.ONCE) -> Held:
    client = secrets.token_hex(8)
    return Held("ann", client, "1", "movement", "basic", "", collect, 30.0, now + 60, '{"a":"\\u0000ü"}')


async def test_a_ticket_is_claimed_once_until_it_has_an_outcome(store: Store, now: float) -> None:
    ticket = a_ticket(now)
    assert await store.claim(ticket, stale=now - 30) == Claim(True)
    assert await store.claim(ticket, stale=now - 30) == Claim(False, "digest", "")
    await store.settle(ticket.key, "done")
    await store.release(ticket.key)
    assert await store.claim(replace(ticket, digest="other"), stale=now + 30) == Claim(
        False, "digest", "done"
    )


async def test_of_many_who_claim_at_once_one_gets_the_ticket(store: Store, now: float) -> None:
    ticket = a_ticket(now)
    claims = await asyncio.gather(*(store.claim(ticket, stale=now - 30) for _ in range(50)))
    assert sum(claim.mine for claim in claims) == 1


async def test_a_ticket_given_back_can_be_claimed_again(store: Store, now: float) -> None:
    ticket = a_ticket(now)
    await store.claim(ticket, stale=now - 30)
    await store.release(ticket.key)
    assert (await store.claim(ticket, stale=now - 30)).mine


async def test_a_ticket_of_somebody_who_died_is_taken_over_by_one(store: Store, now: float) -> None:
    ticket = a_ticket(now)
    await store.claim(ticket, stale=now - 30)
    later = replace(ticket, at=now + 31)
    claims = await asyncio.gather(*(store.claim(later, stale=now + 1) for _ in range(10)))
    assert sum(claim.mine for claim in claims) == 1


async def test_an_expired_ticket_is_nobodys(store: Store, now: float) -> None:
    ticket = a_ticket(now)
    await store.claim(ticket, stale=now - 30)
    await store.settle(ticket.key, "done")
    assert (await store.claim(replace(ticket, at=now + 61, expires=now + 100), stale=now + 31)).mine


async def test_a_ticket_is_remembered_for_as_long_as_a_repetition_is_valid(store: Store, now: float) -> None:
    ticket = a_ticket(now)
    await store.claim(ticket, stale=now - 30)
    await store.settle(ticket.key, "done")
    later = replace(ticket, at=now + 50, expires=now + 110)
    for at in (now + 50, now + 61, now + 109):
        assert await store.claim(replace(later, at=at), stale=at - 30) == Claim(False, "digest", "done")
    await store.claim(replace(ticket, at=now + 50), stale=now + 20)
    assert not (await store.claim(replace(later, at=now + 109), stale=now + 79)).mine


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("mode", [Collect.ONCE, Collect.LEASE])
async def test_a_response_is_taken_by_one_of_many(
    store: Store, now: float, mode: Collect, named: bool
) -> None:
    held = a_response(now, mode)
    assert await store.hold(held, now)
    assert await store.find(held.place, now) == [held]
    taken = await asyncio.gather(*(store.take(held, now, str(n) if named else "") for n in range(20)))
    assert sum(taken) == 1
    assert await store.find(held.place, now) == []
    assert await store.find(held.place, now, "another") == []


@pytest.mark.parametrize("mode", [Collect.ONCE, Collect.LEASE])
async def test_only_its_collector_gets_a_response_again_and_can_end_it(
    store: Store, now: float, mode: Collect
) -> None:
    held = a_response(now, mode)
    await store.hold(held, now)
    assert not await store.done(held, "one"), "nobody has it yet"
    assert not await store.done(held)
    for _ in range(3):
        assert await store.take(held, now, "one")
        assert await store.find(held.place, now, "one") == [held]
    for other in ("", "other"):
        assert not await store.take(held, now, other)
        assert not await store.done(held, other)
    assert await store.find(held.place, now + 31, "other") == ([] if mode is Collect.ONCE else [held])
    assert await store.take(held, now + 31, "other") == (mode is Collect.LEASE)
    last = "one" if mode is Collect.ONCE else "other"
    assert await store.done(held, last)
    assert not await store.done(held, last)
    for collector in ("", "one", "other"):
        assert await store.find(held.place, now + 31, collector) == []
    assert await store.hold(held, now)
    assert await store.take(held, now, "third"), "who had the one before has no claim on this one"


async def test_a_collector_confirms_also_after_its_lease(store: Store, now: float) -> None:
    held = a_response(now, Collect.LEASE)
    await store.hold(held, now)
    await store.take(held, now - 40, "one")
    assert await store.find(held.place, now) == [held]
    assert await store.done(held, "one")
    assert await store.find(held.place, now) == []


async def test_a_table_of_an_older_gateway_is_used_on(tmp_path: Path, now: float) -> None:
    old = sqlite3.connect(tmp_path / "gateway.db")
    old.execute(
        "CREATE TABLE gateway_responses (client TEXT NOT NULL, request TEXT NOT NULL, owner TEXT NOT NULL,"
        " entity TEXT NOT NULL, level TEXT NOT NULL, token TEXT NOT NULL, collect TEXT NOT NULL,"
        " lease REAL NOT NULL, expires REAL NOT NULL, body TEXT NOT NULL, leased_until REAL NOT NULL,"
        " PRIMARY KEY (client, request, owner, entity))"
    )
    held = a_response(now)
    values = (held.client, "1", "ann", "movement", "basic", "", "once", 30.0, held.expires, held.body, 0.0)
    old.execute(f"INSERT INTO gateway_responses VALUES ({', '.join('?' * len(values))})", values)
    old.commit()
    old.close()
    for _ in range(2):
        async with opened(f"sqlite://{tmp_path}/gateway.db") as store:
            assert await store.find(held.place, now, "one") == [held]
            assert await store.take(held, now, "one")


async def test_the_first_response_stays(store: Store, now: float) -> None:
    held = a_response(now)
    assert await store.hold(held, now)
    assert not await store.hold(replace(held, body="forged"), now)
    assert await store.find(held.place, now) == [held]
    newer = replace(held, body="new", expires=now + 200)
    assert await store.hold(newer, now + 61)
    assert await store.find(held.place, now + 61) == [newer]


async def test_a_leased_response_comes_back_unless_it_arrived(store: Store, now: float) -> None:
    held = a_response(now, Collect.LEASE)
    await store.hold(held, now)
    assert await store.take(held, now)
    assert not await store.take(held, now + 1)
    assert await store.find(held.place, now + 1) == []
    assert await store.leased(held.place, now + 1) == [held]
    assert await store.find(held.place, now + 31) == [held]
    assert await store.take(held, now + 31)
    assert await store.done(held)
    assert await store.find(held.place, now + 100) == []
    assert await store.leased(held.place, now + 32) == []


async def test_a_lease_is_not_cut_short_by_another_at_the_same_place(store: Store, now: float) -> None:
    held = a_response(now, Collect.LEASE)
    other = replace(held, entity="price")
    for each in (held, other):
        await store.hold(each, now)
    assert await store.take(held, now)
    assert await store.take(other, now - 100)
    assert await store.leased(held.place, now) == [held]
    assert await store.find(held.place, now) == [other]


async def test_a_kept_response_can_be_taken_until_it_expires(store: Store, now: float) -> None:
    held = a_response(now, Collect.KEEP)
    await store.hold(held, now)
    assert await store.take(held, now)
    assert await store.find(held.place, now + 59) == [held]
    assert await store.find(held.place, now + 61) == []


async def test_no_collector_ends_a_kept_response(store: Store, now: float) -> None:
    held = a_response(now, Collect.KEEP)
    await store.hold(held, now)
    for collector in ("", "one", ""):
        assert not await store.done(held, collector)
        assert await store.take(held, now, collector)
        assert not await store.done(held, collector)
        for other in ("", "one", "other"):
            assert await store.find(held.place, now, other) == [held]
        assert await store.present([held.place], now) == {held.place}


async def test_owners_and_entities_do_not_meet(store: Store, now: float) -> None:
    held = a_response(now)
    other = replace(held, owner="", entity="price", expires=now + 90)
    await store.hold(held, now)
    await store.hold(other, now)
    assert await store.find(held.place, now) == [held, other]
    await store.take(held, now)
    assert await store.find(held.place, now) == [other]


async def test_ids_that_look_alike_are_different_places(store: Store, now: float) -> None:
    one = replace(a_response(now), client="a-b", request="c")
    other = replace(one, client="a", request="b-c")
    await store.done(one)
    await store.done(other)
    assert await store.hold(one, now)
    assert await store.find(other.place, now) == []
    assert await store.hold(other, now)
    await store.done(one)
    await store.done(other)


async def test_the_places_with_something_to_collect_are_told(store: Store, now: float) -> None:
    some = [a_response(now) for _ in range(3)]
    leased = a_response(now, Collect.LEASE)
    for each in (*some, leased):
        await store.hold(each, now)
    await store.take(leased, now)
    places = [each.place for each in (*some, leased)] + [Place("nobody", str(n)) for n in range(250)]
    assert await store.present(places, now) == {each.place for each in some}
    assert await store.present(places, now + 61) == set()
    assert await store.present([], now) == set()


async def test_what_waits_for_an_owner_is_counted(store: Store, now: float) -> None:
    owner = secrets.token_hex(8)
    some = [replace(a_response(now), owner=owner, expires=now + 60 + n) for n in range(5)]
    for each in some:
        await store.hold(each, now)
    assert await store.waiting(owner, 100, now) == 5
    assert await store.waiting(owner, 5, now) == 5
    assert await store.waiting(owner, 100, now + 61.5) == 3
    await store.take(some[4], now)
    assert await store.waiting(owner, 100, now) == 4


async def test_what_has_expired_is_swept_away(store: Store, now: float) -> None:
    await store.sweep(now + 10_000)
    later = replace(a_response(now), expires=now + 600)
    await asyncio.gather(*(store.hold(each, now) for each in (*(a_response(now) for _ in range(450)), later)))
    assert await store.sweep(now + 61) == 450
    assert await store.sweep(now + 61) == 0
    await store.sweep(now + 10_000)


async def test_keys_are_kept_listed_and_revoked(store: Store, now: float) -> None:
    key = StoredKey(secrets.token_hex(8), "partner", "hash", ("service.a", "service.b"), now, now + 5)
    assert await store.key(key.id) is None
    await store.add_key(key)
    assert await store.key(key.id) == key
    assert key in await store.keys()
    with pytest.raises(Conflict):
        await store.add_key(key)
    assert await store.revoke_key(key.id)
    assert not await store.revoke_key(key.id)
    assert await store.key(key.id) is None


async def test_two_gateways_share_one_store(
    request: pytest.FixtureRequest, tmp_path: Path, now: float
) -> None:
    for kind in ("sqlite", "postgres", "redis"):
        url = store_url(kind, request, tmp_path)
        async with opened(url) as one, opened(url) as other:
            tickets = [a_ticket(now) for _ in range(30)]
            claims = await asyncio.gather(
                *(store.claim(each, stale=now - 30) for each in tickets for store in (one, other))
            )
            assert sum(claim.mine for claim in claims) == 30
            held = a_response(now)
            await one.hold(held, now)
            assert sum(await asyncio.gather(one.take(held, now, "1"), other.take(held, now, "2"))) == 1


async def test_what_was_written_survives_the_process(tmp_path: Path, now: float) -> None:
    held = a_response(now)
    async with opened(f"sqlite://{tmp_path}/gateway.db") as store:
        await store.hold(held, now)
    async with opened(f"sqlite://{tmp_path}/gateway.db") as store:
        assert await store.find(held.place, now) == [held]


async def test_a_store_that_is_away_says_so_and_is_used_again_when_it_is_back(
    service_folder: Path, now: float
) -> None:
    for server in running(Redis, service_folder / "gateway"):
        async with opened(server.url) as store:
            held = a_response(now)
            await store.hold(held, now)
            server.kill()
            with pytest.raises(NotNow) as caught:
                await store.find(held.place, now)
            assert caught.value.code == "gateway.store-away"
            server.restart()
            async with asyncio.timeout(60):
                while True:
                    try:
                        found = await store.find(held.place, now)
                        break
                    except NotNow:
                        await asyncio.sleep(0.05)
            assert found == [held]


@pytest.mark.parametrize("url", ["mysql://host/db", "memory://", "file://x", "nothing"])
def test_a_store_that_is_not_known_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        open_store(url)
