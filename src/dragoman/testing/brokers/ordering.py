"""Order is kept where the broker says so."""

from __future__ import annotations

from collections import defaultdict

import pytest

from dragoman.core.broker import Ordering, Receiver
from dragoman.core.message import Message
from dragoman.testing.brokers.rig import FULL, Harness, Rig, numbered, payloads


def first_deliveries(messages: list[Message]) -> dict[bytes | None, list[bytes]]:
    """Per key the payloads, each where it was first delivered."""
    found: dict[bytes | None, list[bytes]] = defaultdict(list)
    for message in messages:
        if message.payload is not None and message.payload not in found[message.key]:
            found[message.key].append(message.payload)
    return found


@pytest.mark.asyncio
class OrderingTests:
    async def test_messages_of_one_key_arrive_in_order(self, harness: Harness) -> None:
        harness.need("keys")
        if harness.capabilities.ordering is Ordering.NONE:
            pytest.skip("the broker promises no order")
        count = 1000 if FULL else 400
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=4)
            receiver = await rig.receiver(broker, channel)
            messages = numbered(channel, count, keys=16)
            for start in range(0, count, 30):
                await broker.publish(messages[start : start + 30])
            for order in first_deliveries(await rig.collect(receiver, payloads(count))).values():
                assert order == sorted(order)

    async def test_order_holds_with_several_members(self, harness: Harness) -> None:
        harness.need("groups", "keys")
        if harness.capabilities.ordering is not Ordering.PARTITION:
            pytest.skip("the broker promises no order for several members")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=4)
            receivers = [await rig.receiver(broker, channel) for _ in range(3)]
            await broker.publish(numbered(channel, 300, keys=16))
            for order in first_deliveries(await rig.collect(receivers, payloads(300), limit=7)).values():
                assert order == sorted(order)

    async def test_a_key_always_goes_to_the_same_partition(self, harness: Harness) -> None:
        harness.need("keys")
        if harness.capabilities.ordering is not Ordering.PARTITION:
            pytest.skip("the broker has no partitions")
        async with harness.rig() as rig:
            broker, other = await rig.broker(), await rig.broker()
            channel = await rig.channel(broker, partitions=4)
            receiver = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 40, keys=8))
            await other.publish(numbered(channel, 40, start=40, keys=8))
            places = defaultdict(set)
            for message in await rig.collect(receiver, payloads(80)):
                places[message.key].add(message.partition)
            assert all(len(partitions) == 1 for partitions in places.values())
            assert len(set.union(*places.values())) > 1

    async def test_a_chosen_partition_is_used_and_offsets_rise(self, harness: Harness) -> None:
        if harness.capabilities.ordering is not Ordering.PARTITION:
            pytest.skip("the broker has no partitions")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=3)
            receiver = await rig.receiver(broker, channel)
            sent = [message._replace(partition=2) for message in numbered(channel, 20)]
            positions = [position for position in await broker.publish(sent) if position is not None]
            found = await rig.collect(receiver, payloads(20))
            assert {message.partition for message in found} == {2}
            assert [position.offset for position in positions] == sorted(
                position.offset for position in positions
            )
            offsets = [message.offset or 0 for message in found]
            assert offsets == sorted(offsets)

    async def test_what_is_released_without_delay_comes_again_before_what_follows(
        self, harness: Harness
    ) -> None:
        if harness.capabilities.ordering is not Ordering.PARTITION:
            pytest.skip("the broker has no partitions")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            receiver = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 10))
            batch = await self._receive(rig, receiver, 10)
            await receiver.acknowledge([batch[2]])
            await receiver.release([batch[3]])
            again = await self._receive(rig, receiver, 7)
            assert [message.payload for message in again] == payloads(7, start=3)

    @staticmethod
    async def _receive(rig: Rig, receiver: Receiver, count: int) -> list[Message]:
        found: list[Message] = []
        while len(found) < count:
            found += await rig.receive_some(receiver, limit=count - len(found))
        return found
