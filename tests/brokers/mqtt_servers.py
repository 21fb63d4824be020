"""Mosquitto with settings of its own, and what tests do with a broker on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from dragoman.adapters.mqtt import MqttBroker
from dragoman.adapters.mqtt.receiver import MqttReceiver
from dragoman.core.message import Message
from tests.services.fixtures import missing
from tests.services.mosquitto import Mosquitto
from tests.services.server import ServiceUnavailable

PATIENCE = 60.0


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[MqttBroker]:
    broker = MqttBroker(url)
    await broker.connect()
    try:
        yield broker
    finally:
        await broker.close()


async def received(receiver: MqttReceiver, count: int) -> list[Message]:
    found: list[Message] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            found += await receiver.receive(count - len(found), 1.0)
    return found


def unique(name: str = "channel") -> str:
    return f"{name}-{uuid4().hex}"


@asynccontextmanager
async def serving(folder: Path, **settings: str) -> AsyncIterator[Mosquitto]:
    try:
        Mosquitto.executable()
    except ServiceUnavailable as unavailable:
        missing(str(unavailable))
    server = Mosquitto(folder / "own", **settings)
    await asyncio.to_thread(server.start)
    try:
        yield server
    finally:
        await asyncio.to_thread(server.stop)
