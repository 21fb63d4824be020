"""Channels are created, described, changed and deleted."""

from __future__ import annotations

from uuid import uuid4

import pytest

from dragoman.core.broker import Ordering, Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import ChannelNotFound, ConfigurationError
from dragoman.core.message import Message
from dragoman.testing.brokers.rig import Harness, numbered, payloads


@pytest.mark.asyncio
class ChannelTests:
    async def test_a_channel_is_created_once(self, harness: Harness) -> None:
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = Channel(f"suite-{uuid4().hex}", 2, settings=harness.settings)
            assert await broker.create(channel)
            if harness.declared_channels:
                assert not await broker.create(channel)
                assert channel.name in await broker.channels()
                assert (await broker.describe(channel.name)).name == channel.name

    async def test_partitions_are_kept_and_may_grow(self, harness: Harness) -> None:
        if harness.capabilities.ordering is not Ordering.PARTITION or not harness.declared_channels:
            pytest.skip("the broker has no partitions")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=2)
            receiver = await rig.receiver(broker, channel)
            assert (await broker.describe(channel)).partitions == 2
            await broker.alter(Channel(channel, 4, settings=harness.settings))
            assert (await broker.describe(channel)).partitions == 4
            with pytest.raises(ConfigurationError):
                await broker.alter(Channel(channel, 1, settings=harness.settings))
            sent = [
                message._replace(partition=number % 4) for number, message in enumerate(numbered(channel, 40))
            ]
            await broker.publish(sent)
            found = await rig.collect(receiver, payloads(40))
            assert {message.partition for message in found} == {0, 1, 2, 3}

    async def test_a_channel_that_does_not_exist_is_refused(self, harness: Harness) -> None:
        if not harness.declared_channels:
            pytest.skip("channels need not be declared")
        name = f"suite-{uuid4().hex}"
        async with harness.rig() as rig:
            broker = await rig.broker()
            with pytest.raises(ChannelNotFound):
                await broker.describe(name)
            with pytest.raises(ChannelNotFound):
                await broker.publish([Message(name, b"x")])
            with pytest.raises(ChannelNotFound):
                await broker.subscribe(Subscription((name,), "group", options=harness.options))
            with pytest.raises(ChannelNotFound):
                await broker.delete(name)

    async def test_a_deleted_channel_is_gone_and_may_come_back_empty(self, harness: Harness) -> None:
        if not harness.declared_channels:
            pytest.skip("channels need not be declared")
        async with harness.rig() as rig:
            broker, other = await rig.broker(), await rig.broker()
            channel = await rig.channel(broker)
            for one in (broker, other):
                await one.publish(numbered(channel, 5))
            await broker.delete(channel)
            assert channel not in await other.channels()
            with pytest.raises(ChannelNotFound):
                await other.publish(numbered(channel, 1))
            await broker.create(Channel(channel, 2, settings=harness.settings))
            receiver = await rig.receiver(other, channel)
            await other.publish(numbered(channel, 3, start=50))
            found = await rig.collect(receiver, payloads(3, start=50))
            assert {message.payload for message in found} == set(payloads(3, start=50))

    async def test_an_unknown_option_in_the_url_is_refused(self, harness: Harness) -> None:
        sign = "&" if "?" in harness.url else "?"
        with pytest.raises(ConfigurationError):
            Harness(f"{harness.url}{sign}no_such_option=1").make()
