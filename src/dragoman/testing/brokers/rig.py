"""What the tests of the suite stand on: brokers that are closed at the end, and waiting with patience."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest

from dragoman.core.broker import Acknowledgement, Broker, Capabilities, Receiver, Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import Revoked
from dragoman.core.loading import BROKERS, load, scheme_of
from dragoman.core.message import Message
from dragoman.testing.proxy import Proxy

FULL = os.environ.get("DRAGOMAN_STRESS") == "1"
"""The environment variable ``DRAGOMAN_STRESS=1`` asks for the full sizes."""


@dataclass(frozen=True)
class Harness:
    """How the suite reaches one broker.

    ``restart`` ends the server without warning and starts it again, or is ``None`` where there is none to
    restart. ``behind`` makes a proxy before the server, or is ``None`` where there is no network to cut.
    ``settings`` go into every channel, ``options`` into every subscription.
    """

    url: str
    restart: Callable[[], Awaitable[None]] | None = None
    behind: Callable[[], Proxy] | None = None
    other_processes: bool = True
    """Another process can reach what this URL names."""
    declared_channels: bool = True
    """A channel that was not created does not exist."""
    tombstones: bool = True
    """A payload may be missing, which is not the same as empty."""
    repeated_headers: bool = True
    """One header name may occur more than once."""
    patience: float = 60.0
    settings: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def make(self) -> Broker:
        broker: Broker = load(BROKERS, scheme_of(self.url))(self.url)
        return broker

    @property
    def capabilities(self) -> Capabilities:
        return self.make().capabilities

    def need(self, *names: str) -> None:
        """Skip the test unless the broker can do all of this."""
        for name in names:
            if not getattr(self.capabilities, name):
                pytest.skip(f"{scheme_of(self.url)}:// does not have the capability {name!r}")

    @asynccontextmanager
    async def rig(self) -> AsyncIterator[Rig]:
        rig = Rig(self)
        try:
            yield rig
        finally:
            await rig.close()


class Rig:
    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self._brokers: list[Broker] = []

    async def broker(self) -> Broker:
        broker = self.harness.make()
        self._brokers.append(broker)
        await broker.connect()
        return broker

    async def close(self) -> None:
        for broker in reversed(self._brokers):
            await broker.close()

    async def channel(self, broker: Broker, partitions: int = 2) -> str:
        name = f"suite-{uuid4().hex}"
        await broker.create(Channel(name, partitions, settings=self.harness.settings))
        return name

    async def receiver(
        self, broker: Broker, channel: str | Sequence[str], group: str = "group", **more: Any
    ) -> Receiver:
        channels = (channel,) if isinstance(channel, str) else tuple(channel)
        return await broker.subscribe(Subscription(channels, group, options=self.harness.options, **more))

    async def receive_some(self, receiver: Receiver, limit: int = 100) -> list[Message]:
        """The next messages, however long they take."""
        deadline = time.monotonic() + self.harness.patience
        while time.monotonic() < deadline:
            if found := await receiver.receive(limit, 1.0):
                return list(found)
        pytest.fail("No message came.")

    async def collect(
        self,
        receivers: Receiver | Sequence[Receiver],
        wanted: Iterable[bytes],
        *,
        acknowledge: bool = True,
        limit: int = 100,
    ) -> list[Message]:
        """All deliveries until each wanted payload was there; messages may come more than once."""
        missing = set(wanted)
        found: list[Message] = []
        deadline = time.monotonic() + self.harness.patience

        async def listen(receiver: Receiver) -> None:
            while missing and time.monotonic() < deadline:
                batch = await receiver.receive(limit, 0.2)
                found.extend(batch)
                missing.difference_update(message.payload for message in batch if message.payload is not None)
                if acknowledge:
                    # With several members, a partition may change hands in between: it comes again.
                    with suppress(*([Revoked] if len(group) > 1 else [])):
                        await self.acknowledge(receiver, batch)

        group = [receivers] if not isinstance(receivers, Sequence) else receivers
        await asyncio.gather(*(listen(receiver) for receiver in group))
        assert not missing, f"{len(missing)} messages did not come, such as {sorted(missing)[:5]}"
        return found

    async def acknowledge(self, receiver: Receiver, messages: Sequence[Message]) -> None:
        """All of these, in the way that the broker wants it."""
        if self.harness.capabilities.acknowledgement is Acknowledgement.EACH:
            await receiver.acknowledge(messages)
            return
        highest: dict[tuple[str, int | None], Message] = {}
        for message in messages:
            place = message.channel, message.partition
            if place not in highest or (highest[place].offset or 0) < (message.offset or 0):
                highest[place] = message
        await receiver.acknowledge(list(highest.values()))

    async def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self.harness.patience
        while not condition():
            assert time.monotonic() < deadline, "it did not come to pass"
            await asyncio.sleep(0.01)

    async def nothing_more(self, receiver: Receiver, seconds: float = 0.3) -> None:
        """Nothing is delivered for a moment: what is wrongly delivered mostly comes at once."""
        assert list(await receiver.receive(10, seconds)) == []


def numbered(channel: str, count: int, start: int = 0, keys: int = 0) -> list[Message]:
    """Messages with a number as payload, and one of some keys."""
    return [
        Message(channel, payload(number), key=b"key-%d" % (number % keys) if keys else None)
        for number in range(start, start + count)
    ]


def payload(number: int) -> bytes:
    return b"%06d" % number


def payloads(count: int, start: int = 0) -> list[bytes]:
    return [payload(number) for number in range(start, start + count)]
