"""The store on Redis: what expires there goes by itself.

``redis://host:6379/0?prefix=gateway``. It keeps what it is told as safely as its own settings say: with
``appendonly yes`` and ``appendfsync always``, through a crash.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from dragoman.core.errors import ConfigurationError, Conflict
from dragoman.core.extras import extra_missing
from dragoman.core.loading import redacted
from dragoman.gateway.envelope.derivation import combined
from dragoman.gateway.store.lane import away
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

log = logging.getLogger("dragoman.gateway")

T = TypeVar("T")

_CLAIM = """
local old = redis.call('HMGET', KEYS[1], 'digest', 'made', 'outcome', 'expires')
local gone = not old[1] or tonumber(old[4]) <= tonumber(ARGV[2])
local stale = old[1] and old[3] == '' and old[1] == ARGV[1] and tonumber(old[2]) < tonumber(ARGV[4])
if not gone and not stale then
  if tonumber(old[4]) < tonumber(ARGV[3]) then
    redis.call('HSET', KEYS[1], 'expires', ARGV[3])
    redis.call('EXPIREAT', KEYS[1], math.ceil(tonumber(ARGV[3])))
  end
  return {0, old[1], old[3]}
end
redis.call('HSET', KEYS[1], 'digest', ARGV[1], 'made', ARGV[2], 'outcome', '', 'expires', ARGV[3])
redis.call('EXPIREAT', KEYS[1], math.ceil(tonumber(ARGV[3])))
return {1}
"""
_SETTLE = "if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'outcome', ARGV[1]) end"
_RELEASE = "if redis.call('HGET', KEYS[1], 'outcome') == '' then redis.call('DEL', KEYS[1]) end"
_HOLD = """
local old = redis.call('HGET', KEYS[1], ARGV[1])
if old and cjson.decode(old).expires > tonumber(ARGV[5]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('HDEL', KEYS[3], ARGV[1], '~c' .. ARGV[1])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[4])
for _, key in ipairs(KEYS) do
  local ends = redis.call('EXPIRETIME', key)
  if ends < tonumber(ARGV[3]) then redis.call('EXPIREAT', key, math.ceil(tonumber(ARGV[3]))) end
end
return 1
"""
_TAKE = """
local text, now = redis.call('HGET', KEYS[1], ARGV[1]), tonumber(ARGV[2])
if not text or cjson.decode(text).expires <= now then return 0 end
local by = redis.call('HGET', KEYS[3], '~c' .. ARGV[1]) or ''
local leased = tonumber(redis.call('HGET', KEYS[3], ARGV[1]) or '0') > now
if leased and (ARGV[4] == '' or by ~= ARGV[4]) then return 0 end
redis.call('HSET', KEYS[3], ARGV[1], ARGV[3], '~c' .. ARGV[1], ARGV[4])
redis.call('ZREM', KEYS[2], ARGV[5])
if redis.call('EXPIRETIME', KEYS[3]) < tonumber(ARGV[6]) then
  redis.call('EXPIREAT', KEYS[3], math.ceil(tonumber(ARGV[6])))
end
return 1
"""
_DONE = """
local by = redis.call('HGET', KEYS[3], '~c' .. ARGV[1]) or ''
local taken = redis.call('HEXISTS', KEYS[3], ARGV[1]) == 1
if by ~= ARGV[2] or not taken then return 0 end
redis.call('HDEL', KEYS[3], ARGV[1], '~c' .. ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[3])
return redis.call('HDEL', KEYS[1], ARGV[1])
"""

_AT_ONCE = 100
_COLLECTOR = "~c"
"""Before a response's field: where its collector is noted. No field begins like this (see ``combined``)."""

_read_held = msgspec.json.Decoder(Held).decode
_read_key = msgspec.json.Decoder(StoredKey).decode


class RedisStore:
    """Responses are fields of a hash per place. Another hash has when their leases end, and who has them."""

    def __init__(self, url: str) -> None:
        try:
            from redis.asyncio import BlockingConnectionPool, Redis
            from redis.exceptions import RedisError, ResponseError
        except ModuleNotFoundError as error:
            raise extra_missing("The store", "redis", "redis") from error
        plain, self._prefix = _split(url)
        try:
            pool = BlockingConnectionPool.from_url(
                plain, decode_responses=True, max_connections=32, timeout=30, socket_connect_timeout=5
            )
        except ValueError as error:
            raise ConfigurationError(
                f"The address of the store cannot be used: {error}.", url=redacted(url)
            ) from None
        self._redis: Any = Redis(connection_pool=pool)
        self._errors: tuple[type[Exception], ...] = (RedisError, OSError, TimeoutError)
        self._refusal: type[Exception] = ResponseError
        scripts = (_CLAIM, _SETTLE, _RELEASE, _HOLD, _TAKE, _DONE)
        self._claim, self._settle, self._release, self._hold, self._take, self._done = (
            self._redis.register_script(each) for each in scripts
        )

    async def open(self) -> None:
        settings = await self._ask(self._settings())
        if settings.get("appendonly") == "no":
            log.warning("Redis keeps nothing on disk: what was accepted is lost when it stops.")

    async def _settings(self) -> Mapping[str, str]:
        try:
            found: Mapping[str, str] = await self._redis.config_get("appendonly")
        except self._refusal:
            log.info("Redis does not tell its settings. Does it keep what it is told?")
            return {}
        return found

    async def close(self) -> None:
        await self._redis.aclose()
        await self._redis.connection_pool.aclose()

    async def claim(self, ticket: Ticket, *, stale: float) -> Claim:
        values: list[Any] = [ticket.digest, ticket.at, ticket.expires, stale]
        mine, *known = await self._ask(self._claim(keys=[self._name("ticket", ticket.key)], args=values))
        return Claim(bool(mine), *known)

    def settle(self, key: str, outcome: str) -> asyncio.Future[None]:
        asked: Awaitable[None] = self._settle(keys=[self._name("ticket", key)], args=[outcome])
        return asyncio.ensure_future(self._ask(asked))

    async def release(self, key: str) -> None:
        await self._ask(self._release(keys=[self._name("ticket", key)]))

    async def hold(self, held: Held, now: float) -> bool:
        values: list[Any] = [
            _field(held),
            msgspec.json.encode(held).decode(),
            held.expires,
            _member(held),
            now,
        ]
        return bool(await self._ask(self._hold(keys=self._names(held), args=values)))

    async def find(self, place: Place, now: float, collector: str = "") -> Sequence[Held]:
        found = await self._at([place], now)
        return [each for each, until, by in found if until <= now or (by and by == collector)]

    async def leased(self, place: Place, now: float) -> Sequence[Held]:
        return [each for each, until, _ in await self._at([place], now) if until > now]

    async def _at(self, places: Sequence[Place], now: float) -> list[tuple[Held, float, str]]:
        """What is held there, until when it is leased, and to which collector; the oldest first."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for place in places:
                pipe.hgetall(self._name("place", *_ids(place)))
                pipe.hgetall(self._name("lease", *_ids(place)))
            answers = await self._ask(pipe.execute())
        found = [
            (_read_held(text), float(leases.get(name, 0)), leases.get(_COLLECTOR + name, ""))
            for responses, leases in zip(answers[::2], answers[1::2], strict=True)
            for name, text in responses.items()
        ]
        return sorted((each for each in found if each[0].expires > now), key=lambda each: each[0].expires)

    async def take(self, held: Held, now: float, collector: str = "") -> bool:
        if held.collect is Collect.KEEP:
            return True
        until = leased_until(held, now, collector)
        values: list[Any] = [_field(held), now, until, collector, _member(held), held.expires]
        return bool(await self._ask(self._take(keys=self._names(held), args=values)))

    async def done(self, held: Held, collector: str = "") -> bool:
        values: list[Any] = [_field(held), collector, _member(held)]
        return bool(await self._ask(self._done(keys=self._names(held), args=values)))

    async def present(self, places: Collection[Place], now: float) -> set[Place]:
        found: set[Place] = set()
        for some in in_parts(places, _AT_ONCE):
            held = await self._at(some, now)
            found |= {each.place for each, until, _ in held if until <= now}
        return found

    async def waiting(self, owner: str, most: int, now: float) -> int:
        return int(await self._ask(self._redis.zcount(self._name("waiting", owner), f"({now}", "+inf")))

    async def sweep(self, now: float) -> int:
        """Redis drops most by itself; what is left are the counts of owners who go on."""
        return await self._ask(self._swept(now))

    async def _swept(self, now: float) -> int:
        swept = 0
        async for name in self._redis.scan_iter(match=self._name("waiting", "*"), count=1000):
            swept += int(await self._redis.zremrangebyscore(name, "-inf", now))
        return swept

    async def add_key(self, key: StoredKey) -> None:
        text = msgspec.json.encode(key).decode()
        if not await self._ask(self._redis.hsetnx(self._name("keys"), key.id, text)):
            raise Conflict(f"There is a key {key.id!r} already.")

    async def key(self, id: str) -> StoredKey | None:
        text = await self._ask(self._redis.hget(self._name("keys"), id))
        return None if text is None else _read_key(text)

    async def keys(self) -> Sequence[StoredKey]:
        found = await self._ask(self._redis.hgetall(self._name("keys")))
        return sorted(map(_read_key, found.values()), key=lambda key: (key.created, key.id))

    async def revoke_key(self, id: str) -> bool:
        return bool(await self._ask(self._redis.hdel(self._name("keys"), id)))

    def _name(self, *parts: str) -> str:
        return ":".join((self._prefix, *parts))

    def _names(self, held: Held) -> list[str]:
        place = _ids(held.place)
        return [
            self._name("place", *place),
            self._name("waiting", held.owner),
            self._name("lease", *place),
        ]

    async def _ask(self, answer: Awaitable[T]) -> T:
        """Redis' errors as ours."""
        try:
            return await answer
        except self._errors as error:
            raise away(error) from error


def _ids(place: Place) -> tuple[str]:
    return (combined(place.client, place.request),)


def _field(held: Held) -> str:
    return combined(held.owner, held.entity)


def _member(held: Held) -> str:
    return combined(held.client, held.request, held.entity)


def _split(url: str) -> tuple[str, str]:
    """The address for the driver, and our prefix."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    prefix = options.pop("prefix", "gateway")
    return urlunsplit(parts._replace(query=urlencode(options))), prefix
