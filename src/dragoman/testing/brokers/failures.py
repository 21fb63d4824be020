"""What is not handled comes again: at once, later, counted."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from dragoman.testing.brokers.rig import Harness, numbered, payloads


@pytest.mark.asyncio
class FailureTests:
    async def test_what_is_released_comes_again_until_it_is_acknowledged(self, harness: Harness) -> None:
        count = 60
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            receiver = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, count))
            releases: Counter[bytes | None] = Counter()
            done: set[bytes | None] = set()
            while len(done) < count:
                for message in await rig.receive_some(receiver, limit=1):
                    if releases[message.payload] < 2 and message.payload not in done:
                        releases[message.payload] += 1
                        await receiver.release([message])
                    else:
                        done.add(message.payload)
                        await rig.acknowledge(receiver, [message])
            assert done == set(payloads(count))
            assert set(releases.values()) == {2}

    async def test_receivers_that_only_fail_leave_everything_to_the_next(self, harness: Harness) -> None:
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            failing = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 50))
            for _ in range(3):
                for _ in range(30):
                    await failing.release(await rig.receive_some(failing, limit=5))
                await failing.close()
                failing = await rig.receiver(broker, channel)
            await rig.collect(failing, payloads(50))

    async def test_attempts_are_counted(self, harness: Harness) -> None:
        """So that a message can go to the dead letters after a number of deliveries."""
        harness.need("delivery_count")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            receiver = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 1))
            for attempt in range(1, 6):
                [message] = await rig.receive_some(receiver)
                assert message.attempt == attempt
                await receiver.release([message])
            [message] = await rig.receive_some(receiver)
            await rig.acknowledge(receiver, [message])
            await rig.nothing_more(receiver)

    async def test_attempts_are_counted_across_members(self, harness: Harness) -> None:
        harness.need("delivery_count")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            first = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 1))
            assert [message.attempt for message in await rig.receive_some(first)] == [1]
            await first.close()
            second = await rig.receiver(broker, channel)
            assert [message.attempt for message in await rig.receive_some(second)] == [2]

    async def test_a_release_does_not_count_against_the_messages_behind_it(self, harness: Harness) -> None:
        harness.need("delivery_count")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            receiver = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 5, keys=1))
            held = await rig.collect(receiver, payloads(5), acknowledge=False)
            await receiver.release([held[0]])
            kept = {message.payload for message in held if not receiver.lost(message)}
            again = await rig.collect(receiver, set(payloads(5)) - kept)
            attempts = {message.payload: message.attempt for message in again}
            assert attempts.pop(held[0].payload) == 2
            assert set(attempts.values()) <= {1}

    async def test_a_poison_message_does_not_hold_up_the_others(self, harness: Harness) -> None:
        harness.need("delayed_delivery")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            receiver = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 30))
            poison = b"000000"
            done: set[bytes | None] = set()
            while len(done) < 29:
                for message in await rig.receive_some(receiver, limit=1):
                    if message.payload == poison:
                        await receiver.release([message], delay=600.0)
                    else:
                        done.add(message.payload)
                        await rig.acknowledge(receiver, [message])
            assert done == set(payloads(29, start=1))

    async def test_a_delayed_release_comes_again_and_not_too_early(self, harness: Harness) -> None:
        harness.need("delayed_delivery")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            receiver = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 1))
            [message] = await rig.receive_some(receiver)
            released = time.monotonic()
            await receiver.release([message], delay=0.5)
            [again] = await rig.receive_some(receiver)
            assert time.monotonic() - released > 0.45
            assert again.payload == message.payload
            assert again.attempt == (2 if harness.capabilities.delivery_count else again.attempt)
            await rig.acknowledge(receiver, [again])
            await rig.nothing_more(receiver)

    async def test_a_delayed_release_survives_the_receiver(self, harness: Harness) -> None:
        harness.need("delayed_delivery")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            first = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 5))
            held = await rig.collect(first, payloads(5), acknowledge=False)
            await first.release(held[1:2], delay=0.3)
            await first.close()
            second = await rig.receiver(broker, channel)
            await rig.collect(second, payloads(5))
            await rig.nothing_more(second)

    async def test_a_delayed_publish_arrives_and_not_too_early(self, harness: Harness) -> None:
        harness.need("delayed_delivery")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            receiver = await rig.receiver(broker, channel)
            published = time.monotonic()
            await broker.publish(numbered(channel, 3), delay=0.5)
            await broker.publish(numbered(channel, 3, start=3))
            first = await rig.collect(receiver, payloads(3, start=3))
            later = await rig.collect(receiver, set(payloads(6)) - {message.payload for message in first})
            if any(message.payload in payloads(3) for message in later):
                assert time.monotonic() - published > 0.45

    async def test_two_released_at_once_both_come_again(self, harness: Harness) -> None:
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            receiver = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 6))
            held = await rig.collect(receiver, payloads(6), acknowledge=False)
            await receiver.release([held[1], held[4]])
            open_now = {message.payload for message in held if receiver.lost(message)} | {
                held[1].payload,
                held[4].payload,
            }
            await rig.collect(receiver, [value for value in open_now if value is not None])
