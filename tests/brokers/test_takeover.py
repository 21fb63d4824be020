"""Partitions change hands: from members that hang, that join, that hold on for too long."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

from dragoman.core.broker import Receiver
from dragoman.core.errors import Revoked
from dragoman.core.message import Message
from dragoman.testing.brokers import Harness, Rig
from dragoman.testing.brokers.rig import numbered, payloads


@pytest.fixture(params=["memory", "embedded"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://{uuid4().hex}" if request.param == "memory" else f"embedded://{tmp_path}"


async def hold(rig: Rig, receiver: Receiver, count: int) -> list[Message]:
    return await rig.collect(receiver, payloads(count), acknowledge=False)


async def test_a_member_that_hangs_is_out_and_its_late_acknowledgement_is_refused(place: str) -> None:
    async with Harness(f"{place}?lease=0.3").rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker, partitions=2)
        hanging = await rig.receiver(broker, channel)
        await broker.publish(numbered(channel, 10, keys=5))
        held = await hold(rig, hanging, 10)
        other = await rig.receiver(broker, channel)
        found = await rig.collect(other, payloads(10))
        assert {message.attempt for message in found} == {2}
        with pytest.raises(Revoked) as caught:
            await rig.acknowledge(hanging, held)
        assert caught.value.where["channel"] == channel
        assert all(hanging.lost(message) for message in held)
        assert sum(lag.behind for lag in await broker.lag(channel)) == 0


async def test_a_member_that_was_out_comes_back_and_goes_on(place: str) -> None:
    async with Harness(f"{place}?lease=0.3").rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker, partitions=2)
        hanging = await rig.receiver(broker, channel)
        await broker.publish(numbered(channel, 10, keys=5))
        await hold(rig, hanging, 10)
        other = await rig.receiver(broker, channel)
        await rig.collect(other, payloads(10))
        await other.close()
        await broker.publish(numbered(channel, 10, start=10, keys=5))
        await rig.collect(hanging, payloads(10, start=10))


async def test_a_member_that_does_not_finish_in_time_loses_what_it_should_hand_over(place: str) -> None:
    async with Harness(f"{place}?lease=60&handover=0.3").rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker, partitions=2)
        first = await rig.receiver(broker, channel)
        await broker.publish(numbered(channel, 20, keys=9))
        held = await hold(rig, first, 20)
        second = await rig.receiver(broker, channel)
        got: list[Message] = []
        async with asyncio.timeout(60):
            while not got:
                await first.extend()
                got = list(await second.receive(100, 0.05))
        taken = {message.partition for message in got}
        assert len(taken) == 1
        late = [message for message in held if message.partition in taken]
        kept = [message for message in held if message.partition not in taken]
        assert all(first.lost(message) for message in late)
        with pytest.raises(Revoked):
            await rig.acknowledge(first, [late[-1], kept[-1]])
        await rig.acknowledge(second, got)
        rest = {message.payload for message in late} - {message.payload for message in got}
        await rig.collect(second, [payload for payload in rest if payload])
        # What was still its own is acknowledged, although the call raised.
        assert sum(lag.behind for lag in await broker.lag(channel)) == 0


async def test_a_busy_partition_is_handed_over_when_it_is_finished(place: str) -> None:
    async with Harness(f"{place}?lease=60&handover=60").rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker, partitions=2)
        first = await rig.receiver(broker, channel)
        await broker.publish(numbered(channel, 20, keys=9))
        held = await hold(rig, first, 20)
        second = await rig.receiver(broker, channel)
        await first.extend()
        assert list(await second.receive(10, 0.2)) == []
        assert not any(first.lost(message) for message in held)
        await rig.acknowledge(first, held)
        await broker.publish(numbered(channel, 20, start=20, keys=9))
        counts = {first: 0, second: 0}
        seen: set[bytes | None] = set()
        async with asyncio.timeout(60):
            while len(seen) < 20:
                for receiver in counts:
                    batch = await receiver.receive(100, 0.05)
                    assert {message.attempt for message in batch} <= {1}
                    counts[receiver] += len(batch)
                    seen.update(message.payload for message in batch)
                    await rig.acknowledge(receiver, batch)
        assert all(counts.values())


async def test_what_was_released_before_closing_counts_one_attempt(place: str) -> None:
    async with Harness(place).rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker, partitions=1)
        first = await rig.receiver(broker, channel)
        await broker.publish(numbered(channel, 3))
        held = await hold(rig, first, 3)
        await first.release(held)
        await first.close()
        found = await hold(rig, await rig.receiver(broker, channel), 3)
        assert [message.attempt for message in found] == [2, 2, 2]


async def test_a_group_that_has_more_members_than_partitions_goes_on_when_one_leaves(place: str) -> None:
    async with Harness(place).rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker, partitions=1)
        members = [await rig.receiver(broker, channel) for _ in range(3)]
        await broker.publish(numbered(channel, 5))
        await rig.collect(members, payloads(5))
        while members:
            await members.pop(0).close()
            if members:
                start = 5 * len(members)
                await broker.publish(numbered(channel, 5, start=100 + start))
                await rig.collect(members, payloads(5, start=100 + start))
