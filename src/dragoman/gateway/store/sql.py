"""The store on a database: SQLite for gateways of one machine, PostgreSQL for those of many."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from dragoman.core.database import Database, Row, Transaction
from dragoman.core.errors import Conflict, RegistryUnavailable
from dragoman.gateway.store.lane import Lane, away
from dragoman.gateway.store.port import (
    Claim,
    Collect,
    Held,
    Place,
    StoredKey,
    Ticket,
    in_parts,
    leased_until,
)
from dragoman.gateway.store.tables import make_tables

_TICKET = (
    "INSERT INTO gateway_tickets (id, digest, made, expires, outcome) VALUES (?, ?, ?, ?, '')"
    " ON CONFLICT (id) DO NOTHING"
)
_TAKE_OVER = (
    "UPDATE gateway_tickets SET digest = ?, made = ?, expires = ?, outcome = ''"
    " WHERE id = ? AND (expires <= ? OR (outcome = '' AND digest = ? AND made < ?))"
)
_REMEMBER = "UPDATE gateway_tickets SET expires = ? WHERE id = ? AND expires < ?"
_SELECT = (
    "SELECT owner, client, request, entity, level, token, collect, lease, expires, body"
    " FROM gateway_responses WHERE client = ? AND request = ? AND expires > ?"
)
_TAKE = (
    "UPDATE gateway_responses SET leased_until = ?, collector = ?"
    " WHERE client = ? AND request = ? AND owner = ? AND entity = ? AND expires > ?"
    " AND (leased_until <= ? OR (collector = ? AND collector <> ''))"
)
_DONE = (
    "DELETE FROM gateway_responses WHERE client = ? AND request = ? AND owner = ? AND entity = ?"
    " AND collector = ? AND leased_until > 0"
)
_HOLD = (
    "INSERT INTO gateway_responses"
    " (owner, client, request, entity, level, token, collect, lease, expires, body, leased_until, collector)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '')"
    " ON CONFLICT (client, request, owner, entity) DO UPDATE SET level = excluded.level,"
    " token = excluded.token, collect = excluded.collect, lease = excluded.lease,"
    " expires = excluded.expires, body = excluded.body, leased_until = 0, collector = ''"
    " WHERE gateway_responses.expires <= ?"
)
_PRESENT = "SELECT client, request FROM gateway_responses WHERE expires > ? AND leased_until <= ? AND "
_KEYS = "SELECT id, owner, secret, resources, created, expires FROM gateway_keys"
_AT_ONCE = 100
_SWEPT = 200


class SqlStore:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._writes = Lane(database, write=True)
        self._reads = Lane(database, write=False)

    async def open(self) -> None:
        try:
            await asyncio.to_thread(make_tables, self._database)
        except RegistryUnavailable as error:
            raise away(error) from error

    async def close(self) -> None:
        await self._writes.close()
        await self._reads.close()
        self._database.close()

    async def claim(self, ticket: Ticket, *, stale: float) -> Claim:
        return await self._writes.run(lambda tx: _claim(tx, ticket, stale))

    def settle(self, key: str, outcome: str) -> asyncio.Future[None]:
        return self._writes.run(lambda tx: _settle(tx, key, outcome))

    async def release(self, key: str) -> None:
        await self._writes.run(
            lambda tx: tx.execute("DELETE FROM gateway_tickets WHERE id = ? AND outcome = ''", (key,))
        )

    async def hold(self, held: Held, now: float) -> bool:
        return await self._writes.run(lambda tx: _hold(tx, held, now))

    async def find(self, place: Place, now: float, collector: str = "") -> Sequence[Held]:
        free = " AND (leased_until <= ? OR (collector = ? AND collector <> ''))"
        return await self._select(free, place, now, now, collector)

    async def leased(self, place: Place, now: float) -> Sequence[Held]:
        return await self._select(" AND leased_until > ?", place, now, now)

    async def _select(self, which: str, place: Place, now: float, *more: Any) -> Sequence[Held]:
        sql, values = f"{_SELECT}{which} ORDER BY expires", (place.client, place.request, now, *more)
        rows = await self._reads.run(lambda tx: tx.execute(sql, values))
        return [_held(row) for row in rows]

    async def take(self, held: Held, now: float, collector: str = "") -> bool:
        if held.collect is Collect.KEEP:
            return True
        until = leased_until(held, now, collector)
        values = (until, collector, *_at(held), now, now, collector)
        return await self._writes.run(lambda tx: _changes(tx, _TAKE, values))

    async def done(self, held: Held, collector: str = "") -> bool:
        return await self._writes.run(lambda tx: _changes(tx, _DONE, (*_at(held), collector)))

    async def present(self, places: Collection[Place], now: float) -> set[Place]:
        found: set[Place] = set()
        for some in in_parts(places, _AT_ONCE):
            # One after the other, so that others are served in between.
            found |= await self._reads.run(partial(_present, places=some, now=now))
        return found

    async def waiting(self, owner: str, most: int, now: float) -> int:
        sql = (
            "SELECT count(*) FROM"
            " (SELECT 1 FROM gateway_responses WHERE owner = ? AND expires > ? AND leased_until = 0 LIMIT ?)"
            " AS counted"
        )
        rows = await self._reads.run(lambda tx: tx.execute(sql, (owner, now, most)))
        return int(rows[0][0])

    async def sweep(self, now: float) -> int:
        swept = 0
        while True:
            tickets, responses = await self._writes.run(lambda tx: _sweep(tx, now))
            swept += responses
            if max(tickets, responses) < _SWEPT:
                return swept

    async def add_key(self, key: StoredKey) -> None:
        await self._writes.run(lambda tx: _add_key(tx, key))

    async def key(self, id: str) -> StoredKey | None:
        rows = await self._reads.run(lambda tx: tx.execute(_KEYS + " WHERE id = ?", (id,)))
        return _key(rows[0]) if rows else None

    async def keys(self) -> Sequence[StoredKey]:
        rows = await self._reads.run(lambda tx: tx.execute(_KEYS + " ORDER BY created, id"))
        return [_key(row) for row in rows]

    async def revoke_key(self, id: str) -> bool:
        rows = await self._writes.run(
            lambda tx: tx.execute("DELETE FROM gateway_keys WHERE id = ? RETURNING id", (id,))
        )
        return bool(rows)


def _changes(tx: Transaction, sql: str, values: Sequence[Any]) -> bool:
    tx.execute(sql, values)
    return tx.changed > 0


def _claim(tx: Transaction, ticket: Ticket, stale: float) -> Claim:
    key, digest, at, expires = ticket.key, ticket.digest, ticket.at, ticket.expires
    if _changes(tx, _TICKET, (key, digest, at, expires)):
        return Claim(True)
    # The condition is looked at again by the update itself, so of two who see a stale one, one gets it.
    if _changes(tx, _TAKE_OVER, (digest, at, expires, key, at, digest, stale)):
        return Claim(True)
    tx.execute(_REMEMBER, (expires, key, expires))
    rows = tx.execute("SELECT digest, outcome FROM gateway_tickets WHERE id = ?", (key,))
    return Claim(False, *rows[0]) if rows else Claim(False)


def _settle(tx: Transaction, key: str, outcome: str) -> None:
    tx.execute("UPDATE gateway_tickets SET outcome = ? WHERE id = ?", (outcome, key))


def _hold(tx: Transaction, held: Held, now: float) -> bool:
    values = (
        held.owner,
        held.client,
        held.request,
        held.entity,
        held.level,
        held.token,
        held.collect.value,
        held.lease,
        held.expires,
        held.body,
        now,
    )
    return _changes(tx, _HOLD, values)


def _present(tx: Transaction, places: Sequence[Place], now: float) -> set[Place]:
    any_of = " OR ".join(["(client = ? AND request = ?)"] * len(places))
    values = (now, now, *(part for each in places for part in (each.client, each.request)))
    return {Place(client, request) for client, request in tx.execute(_PRESENT + f"({any_of})", values)}


def _sweep(tx: Transaction, now: float) -> tuple[int, int]:
    """A few of each: others have work to do, too."""
    tickets = tx.execute(
        "DELETE FROM gateway_tickets WHERE id IN"
        " (SELECT id FROM gateway_tickets WHERE expires <= ? LIMIT ?) RETURNING id",
        (now, _SWEPT),
    )
    responses = tx.execute(
        "DELETE FROM gateway_responses WHERE (client, request, owner, entity) IN"
        " (SELECT client, request, owner, entity FROM gateway_responses WHERE expires <= ? LIMIT ?)"
        " RETURNING client",
        (now, _SWEPT),
    )
    return len(tickets), len(responses)


def _at(held: Held) -> tuple[str, str, str, str]:
    return held.client, held.request, held.owner, held.entity


def _held(row: Row) -> Held:
    owner, client, request, entity, level, token, collect, lease, expires, body = row
    mode = Collect(collect)
    return Held(owner, client, request, entity, level, token, mode, float(lease), float(expires), body)


def _add_key(tx: Transaction, key: StoredKey) -> None:
    made = tx.execute(
        "INSERT INTO gateway_keys (id, owner, secret, resources, created, expires)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING id",
        (key.id, key.owner, key.secret, json.dumps(key.resources), key.created, key.expires),
    )
    if not made:
        raise Conflict(f"There is a key {key.id!r} already.")


def _key(row: Row) -> StoredKey:
    id, owner, secret, resources, created, expires = row
    end = None if expires is None else float(expires)
    return StoredKey(id, owner, secret, tuple(json.loads(resources)), float(created), end)
