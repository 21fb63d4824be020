"""The network between client and server fails: what was confirmed is there, and work goes on by itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import replace

import pytest

from dragoman.core.broker import Broker, Receiver
from dragoman.core.errors import BrokerError, Revoked
from dragoman.core.message import Message
from dragoman.testing.brokers.rig import Harness, Rig, numbered, payload, payloads
from dragoman.testing.proxy import Proxy

PATIENCE = 3
"""After so many errors in a row a receiver is given up, as the delivery loop of the client does."""


def proxied(harness: Harness) -> Proxy:
    if harness.behind is None:
        pytest.skip("there is no network to cut")
    return harness.behind()


class Listener:
    """Receives and acknowledges through the proxy, with a new receiver of the same broker where one fails."""

    def __init__(self, rig: Rig, broker: Broker, channel: str) -> None:
        self._rig = rig
        self._broker = broker
        self._channel = channel
        self._receiver: Receiver | None = None
        self._failures = 0
        self.seen: set[bytes | None] = set()

    async def open(self) -> Receiver:
        if self._receiver is None:
            self._receiver = await self._rig.receiver(self._broker, self._channel)
        return self._receiver

    async def listen(self, wanted: Iterable[bytes]) -> None:
        """Until all of these were there."""
        missing = set(wanted)
        deadline = asyncio.get_running_loop().time() + self._rig.harness.patience
        while not missing <= self.seen:
            left = missing - self.seen
            assert asyncio.get_running_loop().time() < deadline, (
                f"{len(left)} did not come, such as {min(left)!r}"
            )
            await self.once()

    async def once(self) -> None:
        """One round, whatever comes of it."""
        try:
            receiver = await self.open()
            batch = await receiver.receive(20, 0.5)
            self.seen.update(message.payload for message in batch)
            with contextlib.suppress(Revoked):
                await self._rig.acknowledge(receiver, batch)
            self._failures = 0
        except BrokerError:
            self._failures += 1
            if self._failures >= PATIENCE and self._receiver is not None:
                with contextlib.suppress(BrokerError):
                    await self._receiver.close()
                self._receiver = None
            await asyncio.sleep(0.05)


@pytest.mark.asyncio
class NetworkTests:
    async def test_a_publish_over_a_cut_network_is_confirmed_and_there_or_raises(
        self, harness: Harness
    ) -> None:
        with proxied(harness) as proxy:
            async with harness.rig() as rig, replace(harness, url=proxy.url).rig() as far:
                near, broker = await rig.broker(), await far.broker()
                channel = await rig.channel(near)
                receiver = await rig.receiver(near, channel)
                confirmed = await self._publish_until(broker, channel, range(20))
                proxy.cut()
                confirmed += await self._publish_over(broker, channel, 20, proxy)
                confirmed += await self._publish_until(broker, channel, range(21, 40))
                assert confirmed[-1] == payload(39)
                await rig.collect(receiver, confirmed)

    async def test_connections_that_drop_under_a_stream_of_publishes_lose_none(
        self, harness: Harness
    ) -> None:
        with proxied(harness) as proxy:
            async with harness.rig() as rig, replace(harness, url=proxy.url).rig() as far:
                near, broker = await rig.broker(), await far.broker()
                channel = await rig.channel(near)
                receiver = await rig.receiver(near, channel)
                publishing = asyncio.create_task(self._publish_until(broker, channel, range(200)))
                seen: set[bytes | None] = set()
                for enough in (30, 90, 150):
                    while len(seen) < enough:
                        batch = await rig.receive_some(receiver)
                        seen.update(message.payload for message in batch)
                        await rig.acknowledge(receiver, batch)
                    proxy.drop()
                confirmed = set(await publishing)
                assert confirmed == set(payloads(200))
                await rig.collect(receiver, confirmed - seen)

    async def test_a_consumer_goes_on_by_itself_when_the_network_is_back(self, harness: Harness) -> None:
        with proxied(harness) as proxy:
            async with harness.rig() as rig, replace(harness, url=proxy.url).rig() as far:
                near, broker = await rig.broker(), await far.broker()
                channel = await rig.channel(near)
                listener = Listener(far, broker, channel)
                receiver = await listener.open()
                await near.publish(numbered(channel, 50, keys=5))
                held = await rig.receive_some(receiver, limit=10)
                proxy.cut()
                await near.publish(numbered(channel, 50, start=50, keys=5))
                await listener.once()
                proxy.restore()
                await listener.listen(set(payloads(100)) - {message.payload for message in held})
                await self._finish(rig, receiver, held, listener)

    @staticmethod
    async def _finish(rig: Rig, receiver: Receiver, held: list[Message], listener: Listener) -> None:
        """What was in flight at the cut is acknowledged, or is not ours any more and comes again."""
        lost = [message for message in held if receiver.lost(message)]
        try:
            await rig.acknowledge(receiver, [message for message in held if message not in lost])
        except Revoked:
            lost = held
        await listener.listen(message.payload for message in lost if message.payload is not None)

    async def test_a_stalled_network_confirms_nothing_and_goes_on_when_it_is_back(
        self, harness: Harness
    ) -> None:
        with proxied(harness) as proxy:
            async with harness.rig() as rig, replace(harness, url=proxy.url).rig() as far:
                near, broker = await rig.broker(), await far.broker()
                channel = await rig.channel(near)
                listener = Listener(far, broker, channel)
                await listener.open()
                confirmed = await self._publish_until(broker, channel, range(10))
                await listener.listen(confirmed)
                proxy.stall()
                publishing = asyncio.create_task(broker.publish(numbered(channel, 1, start=10)))
                await asyncio.wait({publishing}, timeout=0.5)
                assert not publishing.done() or isinstance(publishing.exception(), BrokerError)
                await near.publish(numbered(channel, 10, start=20))
                proxy.restore()
                with contextlib.suppress(BrokerError):
                    await publishing
                    confirmed.append(payload(10))
                confirmed += await self._publish_until(broker, channel, range(11, 20))
                await listener.listen({*confirmed, *payloads(10, start=20)})

    @staticmethod
    async def _publish_over(broker: Broker, channel: str, number: int, proxy: Proxy) -> list[bytes]:
        """One publish while the network is cut; it may wait for the network, which comes back in a while."""
        publishing = asyncio.create_task(broker.publish(numbered(channel, 1, start=number)))
        await asyncio.wait({publishing}, timeout=0.5)
        proxy.restore()
        try:
            await publishing
        except BrokerError:
            return []
        return [payload(number)]

    @staticmethod
    async def _publish_until(
        broker: Broker, channel: str, numbers: Iterable[int], patience: float = 60.0
    ) -> list[bytes]:
        """Each of them until it is confirmed: after an error it is not known, so it is sent again."""
        confirmed = []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        for number in numbers:
            while True:
                try:
                    await broker.publish(numbered(channel, 1, start=number))
                    break
                except BrokerError:
                    assert loop.time() < deadline, "publishing does not work again"
                    await asyncio.sleep(0.05)
            confirmed.append(payload(number))
        return confirmed
