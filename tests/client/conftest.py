"""One memory broker and one registry for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from dragoman.adapters.memory import MemoryBroker
from dragoman.core.registry import Registry
from dragoman.registry import connect
from dragoman.testing.plugin import workbench as workbench


@pytest.fixture
async def memory(request: pytest.FixtureRequest) -> AsyncIterator[MemoryBroker]:
    broker = MemoryBroker(f"memory://{id(request)}")
    await broker.connect()
    yield broker
    await broker.close()


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    registry = connect("memory://")
    yield registry
    await registry.close()


def payloads(broker: MemoryBroker, channel: str) -> list[Any]:
    """The frames that a channel holds."""
    from dragoman.client.history import messages_of

    log = broker.log()
    return [
        message
        for partition, (start, end) in log.partitions(channel).items()
        if end > start
        for message in messages_of(log.read(channel, partition, start, end), channel, partition)
    ]
