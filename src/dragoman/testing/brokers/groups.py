"""Groups: members share, groups do not; members come and go."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from dragoman.core.broker import Acknowledgement, Ordering, Receiver
from dragoman.core.channel import Channel
from dragoman.core.errors import Revoked
from dragoman.core.message import Message
from dragoman.testing.brokers.rig import FULL, Harness, Rig, numbered, payloads


@pytest.mark.asyncio
class GroupTests:
    async def test_every_group_gets_every_message(self, harness: Harness) -> None:
        harness.need("groups")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            one, other = (
                await rig.receiver(broker, channel, "one"),
                await rig.receiver(broker, channel, "other"),
            )
            await broker.publish(numbered(channel, 50))
            for receiver in (one, other):
                await rig.collect(receiver, payloads(50))

    async def test_those_who_come_first_and_at_once_all_get_in(self, harness: Harness) -> None:
        """Services that are deployed together: each makes the channel, joins the group and publishes."""
        harness.need("groups")
        services, rounds = (8, 20) if FULL else (4, 1)
        for _ in range(rounds):
            async with harness.rig() as rig:
                channel = Channel(f"suite-{uuid4().hex}", 2, settings=harness.settings)

                async def come(number: int, channel: Channel = channel, rig: Rig = rig) -> Receiver:
                    broker = await rig.broker()
                    await broker.create(channel)
                    receiver = await rig.receiver(broker, channel.name)
                    await broker.publish(numbered(channel.name, 10, start=10 * number))
                    return receiver

                receivers = await asyncio.gather(*(come(number) for number in range(services)))
                await rig.collect(receivers, payloads(10 * services))

    async def test_what_is_acknowledged_does_not_come_again(self, harness: Harness) -> None:
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            receiver = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 20))
            await rig.collect(receiver, payloads(20))
            await receiver.close()
            await rig.nothing_more(await rig.receiver(broker, channel))

    async def test_what_is_in_flight_is_not_given_to_anybody_else(self, harness: Harness) -> None:
        harness.need("groups")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            first = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 5))
            await rig.collect(first, payloads(5), acknowledge=False)
            await rig.nothing_more(first)

    async def test_reading_goes_on_where_the_last_receiver_stopped(self, harness: Harness) -> None:
        count = 2000 if FULL else 300
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            receiver = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, count))
            seen: set[bytes | None] = set()
            while len(seen) < count:
                batch = await rig.receive_some(receiver, limit=count // 6)
                seen.update(message.payload for message in batch)
                await rig.acknowledge(receiver, batch)
                await receiver.close()
                receiver = await rig.receiver(broker, channel)
            assert seen == set(payloads(count))

    async def test_what_a_closed_receiver_held_goes_to_the_next(self, harness: Harness) -> None:
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            first = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 10))
            await rig.collect(first, payloads(10), acknowledge=False)
            await first.close()
            await rig.collect(await rig.receiver(broker, channel), payloads(10))

    async def test_receivers_that_open_and_close_in_parallel_disturb_nobody(self, harness: Harness) -> None:
        harness.need("groups")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            keeper = await rig.receiver(broker, channel)

            async def come_and_go() -> None:
                receiver = await rig.receiver(broker, channel)
                await receiver.receive(1, 0.01)
                await receiver.close()

            await asyncio.gather(*(come_and_go() for _ in range(10)))
            await broker.publish(numbered(channel, 50))
            await rig.collect(keeper, payloads(50))

    async def test_a_member_that_joins_while_others_handle_loses_nothing(self, harness: Harness) -> None:
        harness.need("groups")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=4)
            first = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 100, keys=20))
            handling = await rig.receive_some(first, limit=40)
            second = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 100, start=100, keys=20))
            rest = set(payloads(200)) - {message.payload for message in handling}
            finishing = asyncio.create_task(self._finish_later(rig, first, handling))
            found = await rig.collect([first, second], rest)
            await finishing
            assert {message.payload for message in [*handling, *found]} == set(payloads(200))

    @staticmethod
    async def _finish_later(rig: Rig, receiver: Receiver, messages: list[Message]) -> None:
        await asyncio.sleep(0.05)
        try:
            await rig.acknowledge(receiver, [message for message in messages if not receiver.lost(message)])
        except Revoked:
            return

    async def test_an_acknowledgement_after_the_receiver_left_changes_nothing(self, harness: Harness) -> None:
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            first = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 3))
            held = await rig.collect(first, payloads(3), acknowledge=False)
            await first.close()
            assert all(first.lost(message) for message in held)
            with pytest.raises(Revoked):
                await rig.acknowledge(first, held)
            await rig.collect(await rig.receiver(broker, channel), payloads(3))

    async def test_only_what_is_acknowledged_is_done(self, harness: Harness) -> None:
        """Handlers finish out of order: what is open comes again, where it must be with all behind it."""
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            first = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 10, keys=1))
            held = {
                message.payload: message
                for message in await rig.collect(first, payloads(10), acknowledge=False)
            }
            each = harness.capabilities.acknowledgement is Acknowledgement.EACH
            done = [b"000001", b"000005", b"000006"] if each else [b"000003"]
            await first.acknowledge([held[number] for number in done])
            await first.close()
            rest = set(payloads(10)) - set(done) if each else set(payloads(6, start=4))
            found = await rig.collect(await rig.receiver(broker, channel), rest)
            assert {message.payload for message in found} == rest

    async def test_a_graceful_drain_leaves_exactly_the_rest(self, harness: Harness) -> None:
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            first = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 60, keys=7))
            handled = await rig.receive_some(first, limit=25)
            await rig.acknowledge(first, handled)
            await first.close()
            rest = set(payloads(60)) - {message.payload for message in handled}
            second = await rig.receiver(broker, channel)
            found = await rig.collect(second, rest)
            assert {message.payload for message in found} == rest
            await rig.nothing_more(second)

    async def test_a_new_group_sees_the_history(self, harness: Harness) -> None:
        harness.need("new_groups_see_history")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            await broker.publish(numbered(channel, 30))
            for group in ("early", "late"):
                await rig.collect(await rig.receiver(broker, channel, group), payloads(30))

    async def test_a_group_that_starts_at_the_latest_skips_the_history(self, harness: Harness) -> None:
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            await broker.publish(numbered(channel, 30))
            receiver = await rig.receiver(broker, channel, "new", start="latest")
            await receiver.receive(1, 0.1)
            await broker.publish(numbered(channel, 10, start=30))
            found = await rig.collect(receiver, payloads(10, start=30))
            assert {message.payload for message in found} == set(payloads(10, start=30))

    async def test_a_group_may_start_at_a_time(self, harness: Harness) -> None:
        harness.need("start_by_time")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            await broker.publish(
                [
                    message._replace(timestamp=1_600_000_000_000 + number * 1000)
                    for number, message in enumerate(numbered(channel, 10))
                ]
            )
            receiver = await rig.receiver(broker, channel, "timed", start=1_600_000_000_000 + 6500)
            found = await rig.collect(receiver, payloads(3, start=7))
            assert {message.payload for message in found} == set(payloads(3, start=7))

    async def test_the_lag_is_what_a_group_has_not_done(self, harness: Harness) -> None:
        harness.need("lag")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            receiver = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 40, keys=9))
            assert sum(lag.behind for lag in await broker.lag(channel, "group")) == 40
            held = await rig.collect(receiver, payloads(40), acknowledge=False)
            assert sum(lag.behind for lag in await broker.lag(channel, "group")) == 40
            await rig.acknowledge(receiver, held)
            lags = await broker.lag(channel)
            assert {lag.group for lag in lags} == {"group"}
            assert sum(lag.behind for lag in lags) == 0
            if harness.capabilities.ordering is Ordering.PARTITION:
                assert sum(lag.end for lag in lags) == 40
