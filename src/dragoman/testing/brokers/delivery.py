"""Messages arrive: all of them, whole, whatever the number of publishers and receivers."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.core.broker import HoldingReceiver
from dragoman.core.message import Message
from dragoman.testing.brokers.rig import FULL, Harness, numbered, payload, payloads


@pytest.mark.asyncio
class DeliveryTests:
    async def test_what_is_published_is_received(self, harness: Harness) -> None:
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            receiver = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 100))
            found = await rig.collect(receiver, payloads(100))
            assert {message.channel for message in found} == {channel}
            assert {message.payload for message in found} == set(payloads(100))

    async def test_keys_and_headers_arrive_as_they_were_sent(self, harness: Harness) -> None:
        harness.need("headers", "keys")
        headers = (("plain", b"text"), ("empty", b""), ("binary", bytes(range(256))), ("späße", b"\xff"))
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            receiver = await rig.receiver(broker, channel)
            sent = [
                Message(channel, b"a", key=b"\x00\xff key", headers=headers),
                Message(channel, b"b", key=b"", headers=()),
                Message(channel, b"c", key=None, headers=(("only", b"one"),)),
            ]
            await broker.publish(sent)
            found = {message.payload: message for message in await rig.collect(receiver, [b"a", b"b", b"c"])}
            for message in sent:
                assert found[message.payload].headers == message.headers
                assert found[message.payload].key == message.key

    async def test_a_header_may_be_repeated(self, harness: Harness) -> None:
        harness.need("headers")
        if not harness.repeated_headers:
            pytest.skip("the broker keeps one value per header name")
        headers = (("name", b"first"), ("other", b"x"), ("name", b"second"))
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            receiver = await rig.receiver(broker, channel)
            await broker.publish([Message(channel, b"m", headers=headers)])
            [message] = await rig.receive_some(receiver)
            assert message.headers == headers
            assert message.header("name") == b"second"

    async def test_payloads_may_be_empty_binary_large_or_missing(self, harness: Harness) -> None:
        sent: list[bytes | None] = [b"", bytes(range(256)), b"\x00" * 5, b"x" * 300_000]
        if harness.tombstones:
            sent.append(None)
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            receiver = await rig.receiver(broker, channel)
            found: list[bytes | None] = []
            for value in sent:
                await broker.publish([Message(channel, value, key=b"k")])
            while len(found) < len(sent):
                batch = await rig.receive_some(receiver)
                found += [message.payload for message in batch]
                await rig.acknowledge(receiver, batch)
            assert sorted(found, key=repr) == sorted(sent, key=repr)

    async def test_many_members_share_many_messages_without_loss(self, harness: Harness) -> None:
        harness.need("groups")
        count, members = (5000, 50) if FULL else (1000, 8)
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=8)
            receivers = [await rig.receiver(broker, channel) for _ in range(members)]
            messages = numbered(channel, count, keys=97)
            listening = asyncio.create_task(rig.collect(receivers, payloads(count)))
            for start in range(0, count, 250):
                await broker.publish(messages[start : start + 250])
            found = await listening
            assert {message.payload for message in found} == set(payloads(count))

    async def test_many_channels_at_once_are_each_complete(self, harness: Harness) -> None:
        channels, count = (20, 100) if FULL else (6, 50)

        async with harness.rig() as rig:
            broker = await rig.broker()

            async def one() -> None:
                channel = await rig.channel(broker)
                receiver = await rig.receiver(broker, channel)
                await broker.publish(numbered(channel, count))
                found = await rig.collect(receiver, payloads(count))
                assert {message.channel for message in found} == {channel}

            await asyncio.gather(*(one() for _ in range(channels)))

    async def test_one_receiver_takes_from_several_channels(self, harness: Harness) -> None:
        async with harness.rig() as rig:
            broker = await rig.broker()
            left, right = await rig.channel(broker), await rig.channel(broker)
            receiver = await rig.receiver(broker, (left, right))
            await broker.publish([*numbered(left, 10), *numbered(right, 10, start=10)])
            found = await rig.collect(receiver, payloads(20))
            assert {message.channel for message in found if message.payload in payloads(10)} == {left}
            assert {message.channel for message in found if message.payload in payloads(10, 10)} == {right}

    async def test_a_held_partition_waits_and_the_others_go_on(self, harness: Harness) -> None:
        async with harness.rig() as rig:
            broker = await rig.broker()
            left, right = await rig.channel(broker), await rig.channel(broker)
            receiver = await rig.receiver(broker, (left, right))
            if not isinstance(receiver, HoldingReceiver):
                pytest.skip("the receiver cannot hold partitions")
            await broker.publish([*numbered(left, 20, keys=8), *numbered(right, 20, start=20, keys=8)])
            receiver.hold({(left, None), (left, 0), (left, 1)})
            found = await rig.collect(receiver, payloads(20, start=20))
            assert {message.channel for message in found} == {right}
            await broker.publish(numbered(left, 1, start=40))
            await rig.nothing_more(receiver)
            assert receiver.partitions >= 2
            receiver.hold(())
            found = await rig.collect(receiver, [*payloads(20), payload(40)])
            assert {message.channel for message in found} == {left}
            await rig.nothing_more(receiver)

    async def test_channels_do_not_mix(self, harness: Harness) -> None:
        async with harness.rig() as rig:
            broker = await rig.broker()
            left, right = await rig.channel(broker), await rig.channel(broker)
            one, other = await rig.receiver(broker, left), await rig.receiver(broker, right)
            await broker.publish(numbered(left, 20))
            await broker.publish(numbered(right, 20, start=100))
            assert {message.payload for message in await rig.collect(one, payloads(20))} == set(payloads(20))
            found = await rig.collect(other, payloads(20, 100))
            assert {message.payload for message in found} == set(payloads(20, 100))

    async def test_publishers_that_close_at_once_lose_nothing(self, harness: Harness) -> None:
        publishers, each = (20, 500) if FULL else (5, 100)
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            receiver = await rig.receiver(broker, channel)

            async def publish(number: int) -> None:
                own = harness.make()
                await own.connect()
                for start in range(0, each, 10):
                    await own.publish(numbered(channel, 10, start=number * each + start))
                await own.close()

            await asyncio.gather(*(publish(number) for number in range(publishers)))
            await rig.collect(receiver, payloads(publishers * each))

    async def test_a_receiver_never_gives_more_than_asked_for(self, harness: Harness) -> None:
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            receiver = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 30))
            seen: set[bytes | None] = set()
            while len(seen) < 30:
                batch = await rig.receive_some(receiver, limit=3)
                assert len(batch) <= 3
                seen.update(message.payload for message in batch)
                await rig.acknowledge(receiver, batch)

    async def test_a_slow_consumer_gets_everything_while_publishing_goes_on(self, harness: Harness) -> None:
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            receiver = await rig.receiver(broker, channel)
            for start in range(0, 200, 20):
                await broker.publish(numbered(channel, 20, start=start))
                batch = await rig.receive_some(receiver, limit=1)
                await rig.acknowledge(receiver, batch)
                await receiver.extend()
            await broker.publish(numbered(channel, 1, start=200))
            await rig.collect(receiver, [b"000200"])

    async def test_a_cancelled_receive_loses_nothing(self, harness: Harness) -> None:
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            receiver = await rig.receiver(broker, channel)
            waiting = asyncio.create_task(receiver.receive(10, 30.0))
            await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await broker.publish(numbered(channel, 20))
            await rig.collect(receiver, payloads(20))

    async def test_a_receive_without_messages_ends_with_none(self, harness: Harness) -> None:
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            receiver = await rig.receiver(broker, channel)
            assert list(await receiver.receive(10, 0.05)) == []
            assert list(await receiver.receive(10, 0.0)) == []
