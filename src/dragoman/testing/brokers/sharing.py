"""How the members of a group divide the messages, groups that are forgotten, and where a group starts."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from dragoman.core.broker import Ordering, Receiver, Sharing, Subscription
from dragoman.core.errors import BrokerError, ConfigurationError, GroupTaken, Revoked, Unsupported
from dragoman.core.message import Message
from dragoman.testing.brokers.ordering import first_deliveries
from dragoman.testing.brokers.rig import FULL, Harness, Rig, numbered, payload, payloads
from dragoman.testing.child import Child


def need_sharing(harness: Harness, sharing: Sharing) -> None:
    if sharing not in harness.capabilities.sharing:
        pytest.skip(f"the broker has no sharing {sharing}")


async def join_stubbornly(rig: Rig, channel: str, sharing: Sharing) -> Receiver:
    """As soon as the broker has noticed that the last member is gone."""
    deadline = asyncio.get_running_loop().time() + rig.harness.patience
    while True:
        try:
            return await rig.receiver(await rig.broker(), channel, sharing=sharing)
        except GroupTaken:
            assert asyncio.get_running_loop().time() < deadline, "the group stays taken"
            await asyncio.sleep(0.2)


@pytest.mark.asyncio
class SharingTests:
    @pytest.mark.parametrize("sharing", list(Sharing))
    async def test_a_group_gets_every_message_however_it_shares(
        self, harness: Harness, sharing: Sharing
    ) -> None:
        need_sharing(harness, sharing)
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            receiver = await rig.receiver(broker, channel, sharing=sharing)
            await broker.publish(numbered(channel, 40, keys=8))
            await rig.collect(receiver, payloads(40))
            await receiver.close()
            await rig.nothing_more(await join_stubbornly(rig, channel, sharing))

    async def test_what_the_broker_cannot_do_is_refused(self, harness: Harness) -> None:
        able = harness.capabilities
        refused: list[Subscription] = []
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            plain = Subscription((channel,), "group", options=harness.options)
            for sharing in set(Sharing) - able.sharing:
                refused.append(Subscription((channel,), "group", sharing=sharing, options=plain.options))
            if not able.temporary_groups:
                refused.append(Subscription((channel,), "group", durable=False, options=plain.options))
            if not able.start_by_offset:
                refused.append(Subscription((channel,), "group", start={0: 0}, options=plain.options))
            for one in refused:
                with pytest.raises(Unsupported):
                    await broker.subscribe(one)

    async def test_an_exclusive_group_has_one_member(self, harness: Harness) -> None:
        need_sharing(harness, Sharing.EXCLUSIVE)
        async with harness.rig() as rig:
            broker, other = await rig.broker(), await rig.broker()
            channel = await rig.channel(broker)
            first = await rig.receiver(broker, channel, sharing=Sharing.EXCLUSIVE)
            with pytest.raises(GroupTaken):
                await rig.receiver(other, channel, sharing=Sharing.EXCLUSIVE)
            elsewhere = await rig.receiver(other, channel, "another", sharing=Sharing.EXCLUSIVE)
            await broker.publish(numbered(channel, 20))
            await rig.collect(elsewhere, payloads(20))
            held = await rig.collect(first, payloads(20), acknowledge=False)
            assert len(held) == 20
            await first.close()
            second = await join_stubbornly(rig, channel, Sharing.EXCLUSIVE)
            await rig.collect(second, payloads(20))

    async def test_of_those_who_come_at_once_one_gets_an_exclusive_group_at_most(
        self, harness: Harness
    ) -> None:
        need_sharing(harness, Sharing.EXCLUSIVE)
        for _ in range(10 if FULL else 2):
            async with harness.rig() as rig:
                brokers = [await rig.broker() for _ in range(4)]
                channel = await rig.channel(brokers[0])
                found = await asyncio.gather(
                    *(rig.receiver(broker, channel, sharing=Sharing.EXCLUSIVE) for broker in brokers),
                    return_exceptions=True,
                )
                others = [each for each in found if isinstance(each, BaseException)]
                assert [each for each in others if not isinstance(each, GroupTaken)] == []
                assert len(others) >= len(brokers) - 1

    async def test_of_a_failover_group_one_member_gets_everything(self, harness: Harness) -> None:
        need_sharing(harness, Sharing.FAILOVER)
        async with harness.rig() as rig:
            broker, other = await rig.broker(), await rig.broker()
            channel = await rig.channel(broker, partitions=3)
            first = await rig.receiver(broker, channel, sharing=Sharing.FAILOVER)
            await broker.publish([Message(channel, payload(0))])
            await rig.collect(first, [payload(0)])
            second = await rig.receiver(other, channel, sharing=Sharing.FAILOVER)
            await broker.publish(numbered(channel, 30, start=1, keys=9))
            got: dict[Receiver, list[Message]] = {first: [], second: []}
            deadline = asyncio.get_running_loop().time() + harness.patience
            while len({message.payload for some in got.values() for message in some}) < 30:
                assert asyncio.get_running_loop().time() < deadline, "some messages did not come"
                for receiver, found in got.items():
                    batch = list(await receiver.receive(7, 0.2))
                    found += batch
                    with contextlib.suppress(Revoked):
                        await rig.acknowledge(receiver, batch)
            assert not (got[first] and got[second]), "two members were active at once"

    async def test_when_the_active_member_leaves_another_takes_over(self, harness: Harness) -> None:
        need_sharing(harness, Sharing.FAILOVER)
        async with harness.rig() as rig:
            broker, other = await rig.broker(), await rig.broker()
            channel = await rig.channel(broker, partitions=2)
            first = await rig.receiver(broker, channel, sharing=Sharing.FAILOVER)
            await broker.publish(numbered(channel, 10, keys=5))
            await rig.collect(first, payloads(10), acknowledge=False)
            second = await rig.receiver(other, channel, sharing=Sharing.FAILOVER)
            await first.close()
            await broker.publish(numbered(channel, 10, start=10, keys=5))
            found = await rig.collect(second, payloads(20))
            if harness.capabilities.ordering is not Ordering.NONE:
                for order in first_deliveries(found).values():
                    assert order == sorted(order)

    async def test_one_key_is_with_one_member_at_a_time(self, harness: Harness) -> None:
        need_sharing(harness, Sharing.KEY_SHARED)
        harness.need("keys")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=4)
            members = [await rig.receiver(broker, channel, sharing=Sharing.KEY_SHARED) for _ in range(3)]
            await broker.publish(numbered(channel, 120, keys=12))
            seen: set[bytes | None] = set()
            order: list[Message] = []
            deadline = asyncio.get_running_loop().time() + harness.patience
            while seen != set(payloads(120)) and asyncio.get_running_loop().time() < deadline:
                holding: dict[bytes | None, int] = {}
                batches = [(member, await member.receive(5, 0.2)) for member in members]
                for number, (member, batch) in enumerate(batches):
                    current = [message for message in batch if not member.lost(message)]
                    for message in current:
                        assert holding.setdefault(message.key, number) == number
                    order += current
                    seen.update(message.payload for message in current)
                for member, batch in batches:
                    # A member may have to give some up meanwhile: they come again elsewhere.
                    with contextlib.suppress(BrokerError):
                        await rig.acknowledge(member, batch)
            assert seen == set(payloads(120))
            for one in first_deliveries(order).values():
                assert one == sorted(one)

    async def test_a_temporary_group_is_forgotten_with_its_last_member(self, harness: Harness) -> None:
        harness.need("temporary_groups")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            first = await rig.receiver(broker, channel, durable=False, start="latest")
            await first.receive(1, 0.1)
            await broker.publish(numbered(channel, 5))
            await rig.collect(first, payloads(5), acknowledge=False)
            await first.close()
            await broker.publish(numbered(channel, 5, start=5))
            again = await rig.receiver(broker, channel, durable=False, start="latest")
            await again.receive(1, 0.1)
            await broker.publish(numbered(channel, 5, start=10))
            found = await rig.collect(again, payloads(5, start=10))
            assert {message.payload for message in found} == set(payloads(5, start=10))

    async def test_the_members_of_a_temporary_group_share_it(self, harness: Harness) -> None:
        harness.need("temporary_groups")
        if Sharing.SHARED not in harness.capabilities.sharing:
            pytest.skip("the broker has no sharing shared")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            first = await rig.receiver(broker, channel, durable=False, start="latest")
            second = await rig.receiver(broker, channel, durable=False, start="latest")
            await asyncio.gather(first.receive(1, 0.1), second.receive(1, 0.1))
            await broker.publish(numbered(channel, 20, keys=10))
            await rig.collect([first, second], payloads(20))
            await first.close()
            await broker.publish(numbered(channel, 20, start=20, keys=10))
            await rig.collect(second, payloads(20, start=20))

    async def test_a_durable_group_cannot_be_joined_as_a_temporary_one(self, harness: Harness) -> None:
        harness.need("temporary_groups")
        async with harness.rig() as rig:
            broker, other = await rig.broker(), await rig.broker()
            channel = await rig.channel(broker)
            first = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 5))
            await rig.collect(first, payloads(5))
            with pytest.raises(ConfigurationError, match="durable already"):
                await rig.receiver(other, channel, durable=False)
            await first.close()
            with pytest.raises(ConfigurationError, match="durable already"):
                await rig.receiver(other, channel, durable=False)
            await broker.publish(numbered(channel, 5, start=5))
            found = await rig.collect(await rig.receiver(other, channel), payloads(5, start=5))
            assert {message.payload for message in found} == set(payloads(5, start=5)), "its place is kept"

    async def test_a_temporary_group_cannot_be_joined_as_a_durable_one(self, harness: Harness) -> None:
        harness.need("temporary_groups")
        async with harness.rig() as rig:
            broker, other = await rig.broker(), await rig.broker()
            channel = await rig.channel(broker)
            first = await rig.receiver(broker, channel, durable=False)
            await first.receive(1, 0.1)
            await broker.publish(numbered(channel, 5))
            await rig.collect(first, payloads(5))
            with pytest.raises(ConfigurationError, match="temporary already"):
                await rig.receiver(other, channel)
            await first.close()
            durable = await rig.receiver(other, channel)
            await broker.publish(numbered(channel, 5, start=5))
            await rig.collect(durable, payloads(5, start=5))

    async def test_a_temporary_group_whose_process_died_is_forgotten(self, harness: Harness) -> None:
        harness.need("temporary_groups", "new_groups_see_history")
        if not harness.other_processes:
            pytest.skip("the broker lives in one process")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            await broker.publish(numbered(channel, 5))
            async with Child("visit", harness.url, channel, "group") as child:
                assert {await child.line() for _ in range(5)} == {each.decode() for each in payloads(5)}
                child.kill()
            # It had acknowledged them: a group that were remembered would not see them again. Where the
            # broker takes a while to notice the death, one may join too early and has to come again.
            deadline = asyncio.get_running_loop().time() + harness.patience
            found: set[bytes | None] = set()
            while found != set(payloads(5)) and asyncio.get_running_loop().time() < deadline:
                receiver = await rig.receiver(broker, channel, durable=False, start="earliest")
                batch = await receiver.receive(10, 1.0)
                found.update(message.payload for message in batch)
                await receiver.close()
            assert found == set(payloads(5))

    async def test_a_group_may_start_at_an_offset(self, harness: Harness) -> None:
        harness.need("start_by_offset")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=2)
            for number, message in enumerate(numbered(channel, 20)):
                await broker.publish([message._replace(partition=number % 2)])
            earliest = await rig.collect(await rig.receiver(broker, channel, "probe"), payloads(20))
            offsets = sorted(message.offset or 0 for message in earliest if message.partition == 0)
            receiver = await rig.receiver(broker, channel, "from", start={0: offsets[6]})
            wanted = {payload(n) for n in range(20) if n % 2 == 1 or n >= 12}
            found = await rig.collect(receiver, wanted)
            assert {message.payload for message in found} == wanted
            await receiver.close()
            # It counts only for a group that has no position yet.
            again = await rig.receiver(broker, channel, "from", start={0: offsets[0]})
            await rig.nothing_more(again)

    async def test_a_partition_that_does_not_exist_is_no_place_to_start(self, harness: Harness) -> None:
        harness.need("start_by_offset")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=2)
            with pytest.raises(ConfigurationError):
                await rig.receiver(broker, channel, "nowhere", start={7: 0})
