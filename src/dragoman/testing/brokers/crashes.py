"""Processes and servers that die: nothing accepted is lost, nothing unfinished is forgotten."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from dragoman.core.broker import Receiver
from dragoman.core.ending import end
from dragoman.core.errors import BrokerError, Revoked
from dragoman.core.message import Message
from dragoman.testing.brokers.rig import FULL, Harness, Rig, numbered, payload, payloads
from dragoman.testing.child import Child


@pytest.mark.asyncio
class CrashTests:
    async def test_a_crash_between_handling_and_acknowledging_delivers_again(self, harness: Harness) -> None:
        if not harness.other_processes:
            pytest.skip("the broker lives in one process")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            receiver = await rig.receiver(broker, channel)
            await receiver.close()
            await broker.publish(numbered(channel, 5))
            async with Child("hold", harness.url, channel, "group") as child:
                held = {await child.line() for _ in range(5)}
                assert held == {value.decode() for value in payloads(5)}
                child.kill()
            found = await rig.collect(await rig.receiver(broker, channel), payloads(5))
            if harness.capabilities.delivery_count:
                assert {message.attempt for message in found} == {2}

    async def test_a_member_that_dies_is_replaced_by_the_others(self, harness: Harness) -> None:
        harness.need("groups")
        if not harness.other_processes:
            pytest.skip("the broker lives in one process")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=4)
            survivor = await rig.receiver(broker, channel)
            found: set[bytes | None] = set()
            listening = asyncio.create_task(self._listen(rig, survivor, found))
            published = 0
            async with Child("hold", harness.url, channel, "group") as child:
                await child.ready()
                holding = asyncio.create_task(child.line())
                while not holding.done():
                    await broker.publish(numbered(channel, 20, start=published, keys=40))
                    published += 20
                    await asyncio.sleep(0.05)
                held = await holding
                child.kill()
            await rig.until(lambda: found >= set(payloads(published)))
            await end(listening)
            assert held.encode() in found

    @staticmethod
    async def _listen(rig: Rig, receiver: Receiver, found: set[bytes | None]) -> None:
        while True:
            batch = await receiver.receive(100, 1.0)
            found.update(message.payload for message in batch)
            with contextlib.suppress(Revoked):
                await rig.acknowledge(receiver, batch)

    async def test_what_a_killed_publisher_had_confirmed_arrives(self, harness: Harness) -> None:
        harness.need("durable")
        if not harness.other_processes:
            pytest.skip("the broker lives in one process")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            receiver = await rig.receiver(broker, channel)
            async with Child("publish", harness.url, channel) as child:
                confirmed = [await child.line() for _ in range(30)]
                child.kill()
                confirmed += await child.rest()
            await rig.collect(receiver, [line.encode() for line in confirmed])

    async def test_a_server_that_dies_and_comes_back_loses_nothing(self, harness: Harness) -> None:
        harness.need("durable")
        if harness.restart is None:
            pytest.skip("there is no server to restart")
        count = 2000 if FULL else 200
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            receiver = await rig.receiver(broker, channel)
            publishing = asyncio.create_task(self._publish_stubbornly(rig, channel, count))
            done = asyncio.Event()
            watching = asyncio.create_task(self._watch(rig, channel, done))
            seen: set[bytes | None] = set()
            restarts = [count // 3, count // 2] if FULL else [count // 3]
            deadline = asyncio.get_running_loop().time() + 3 * harness.patience
            while len(seen) < count and asyncio.get_running_loop().time() < deadline:
                try:
                    batch = await receiver.receive(20, 1.0)
                    seen.update(message.payload for message in batch)
                    with contextlib.suppress(Revoked):
                        await rig.acknowledge(receiver, batch)
                except BrokerError:
                    with contextlib.suppress(BrokerError):
                        await receiver.close()
                    receiver = await self._again(rig, channel)
                if restarts and len(seen) >= restarts[0]:
                    restarts.pop(0)
                    await harness.restart()
            async with asyncio.timeout(harness.patience):
                await publishing
            assert seen == set(payloads(count))
            done.set()
            async with asyncio.timeout(harness.patience):
                await watching

    @staticmethod
    async def _publish_stubbornly(rig: Rig, channel: str, count: int) -> None:
        """Until each message is accepted: after an error it is not known, so it is sent again."""
        broker = await rig.broker()
        for number in range(count):
            while True:
                try:
                    await broker.publish([Message(channel, payload(number))])
                    break
                except BrokerError:
                    await asyncio.sleep(0.1)

    @staticmethod
    async def _watch(rig: Rig, channel: str, done: asyncio.Event) -> None:
        """Ask how far the group is, all the while and at the end: onlookers outlive the server too."""
        if not rig.harness.capabilities.lag:
            return
        broker = await rig.broker()
        while True:
            last = done.is_set()
            try:
                assert await broker.lag(channel, "group")
                if last:
                    return
            except BrokerError:
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.02)

    @staticmethod
    async def _again(rig: Rig, channel: str) -> Receiver:
        async with asyncio.timeout(3 * rig.harness.patience):
            while True:
                try:
                    return await rig.receiver(await rig.broker(), channel)
                except BrokerError:
                    await asyncio.sleep(0.1)
