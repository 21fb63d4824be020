"""A gateway for tests: on memory, with tokens and keys of its own, and a clock that is moved by hand."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import jwt

from dragoman.client.contracts import format_of
from dragoman.core.broker import Subscription
from dragoman.core.message import Message
from dragoman.gateway.envelope import Envelope, collection, from_json, request, response, to_json
from dragoman.gateway.gateway import Gateway
from dragoman.gateway.options import GatewayOptions
from dragoman.gateway.policy import Policy, Rule
from dragoman.gateway.store.port import Collect
from dragoman.registry.http.authenticate import JwtOptions
from dragoman.schema.framing import HEADER_SIZE

JWT_SECRET = "a secret that is long enough for HS512 as well, and is used for nothing else but tests"
AUDIENCE = "gateway"
COLLECTION = "service.collection"

RULES = (
    Rule(resource="service.shares", entity="movement"),
    Rule(resource="service.shares", entity="news", level="basic", collect=Collect.LEASE, lease=30.0),
    Rule(resource="service.shares", entity="account", level="original_token"),
    Rule(resource="service.shares", entity="chart", collect=Collect.KEEP),
    Rule(resource="service.shares", entity="offer", collect=Collect.ONCE),
    Rule(resource="service.auth", entity="authentication", level="basic"),
)


def token(subject: str = "ann", **claims: Any) -> str:
    given = {"sub": subject, "aud": AUDIENCE, "exp": time.time() + 600, **claims}
    return jwt.encode({k: v for k, v in given.items() if v is not None}, JWT_SECRET, "HS256")


def options(**changes: Any) -> GatewayOptions:
    given = GatewayOptions(
        policy=Policy(RULES),
        secret=secrets.token_bytes(32),
        inside_secret=secrets.token_bytes(32),
        store="sqlite://:memory:",
        broker=f"memory://{secrets.token_hex(8)}",
        registry="memory://",
        jwt=JwtOptions(JWT_SECRET, "HS256", AUDIENCE),
    )
    return replace(given, **changes)


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._made = time.time()

    def __call__(self) -> float:
        return self._made + self.ahead

    @property
    def timestamp(self) -> str:
        return datetime.fromtimestamp(self(), UTC).isoformat()


@asynccontextmanager
async def running(clock: Clock | None = None, **changes: Any) -> AsyncIterator[Gateway]:
    async with Gateway(options(**changes), clock=clock or time.time) as gateway:
        yield gateway


def ask(entity: str | None = "movement", *, who: str = "ann", **changes: Any) -> Envelope:
    """A request as the client of ``who`` makes it."""
    given = {"client_id": f"{who}-phone", "token": token(who), **changes}
    return request("service.shares", "select", entity, **given)


class Arrived(NamedTuple):
    envelope: Envelope
    message: Message


async def inside(gateway: Gateway, resource: str = "service.shares") -> list[Arrived]:
    """What has reached an orchestrator's channel, all of it."""
    client = gateway.client
    count = sum(end - start for start, end in client.broker.log().partitions(resource).values())
    receiver = await client.broker.subscribe(Subscription((resource,), group=secrets.token_hex(8)))
    found: list[Message] = []
    try:
        while len(found) < count:
            found += await receiver.receive(count, 60)
    finally:
        await receiver.close()
    avro = format_of("AVRO")
    decode = avro.codec(avro.parse(avro.schema_of(Envelope)), cls=Envelope).decode
    return [Arrived(decode((each.payload or b"")[HEADER_SIZE:]), each) for each in found]


async def answer(gateway: Gateway, stamped: Envelope, data: Any) -> bool:
    return await gateway.collection.hold(response(stamped, data, source="service.shares", to=COLLECTION))


async def collect(gateway: Gateway, of: Envelope, **more: Any) -> Envelope | None:
    wait = more.pop("wait", 0.0)
    found = await gateway.collection.collect(to_json(collection(of, **more)), wait=wait)
    return None if found is None else from_json(found)
