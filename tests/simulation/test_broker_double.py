"""The broker double keeps the promises of the broker port, and breaks where it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import pytest

from dragoman.core.broker import Acknowledgement, HoldingReceiver, LeavingReceiver, Subscription
from dragoman.core.errors import BrokerUnavailable, ChannelNotFound, Revoked
from dragoman.core.message import Message
from dragoman.testing.simulation.broker import HANDOVER_S, LEASE_S, Connection, Kind, Server
from dragoman.testing.simulation.determinism import simulated
from dragoman.testing.simulation.loop import Process
from dragoman.testing.simulation.network import How, Network

SEEDS = range(20)


class Stage:
    """A server with a channel ``c``, and its members."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.connections: dict[str, Connection] = {}

    async def join(self, name: str = "one", channel: str = "c") -> Any:
        connection = self.connections[name] = Connection(self.server, name)
        return await connection.subscribe(Subscription((channel,), "g"))

    def publish(self, count: int, partition: int = 0) -> None:
        self.server.append([Message("c", b"", partition=partition) for _ in range(count)])


def play(work: Callable[[Stage], Awaitable[None]], kind: Kind | None = None, partitions: int = 1) -> None:
    for seed in SEEDS:
        with simulated(seed) as loop:
            server = Server(loop, Network(Random(seed)), kind)
            server.create("c", partitions)
            loop.run_until_complete(work(Stage(server)))


def offsets(messages: Sequence[Message]) -> list[int | None]:
    return [message.offset for message in messages]


def test_a_partition_is_delivered_in_order_and_acknowledged_up_to_a_point() -> None:
    async def work(stage: Stage) -> None:
        receiver = await stage.join()
        stage.publish(5)
        found = await receiver.receive(3, 1.0)
        assert offsets(found) == [0, 1, 2]
        await receiver.acknowledge([found[1]])
        await receiver.close()
        other = await stage.join("two")
        again = await other.receive(10, 1.0)
        assert [(message.offset, message.attempt) for message in again] == [(2, 2), (3, 1), (4, 1)]

    play(work)


def test_messages_are_acknowledged_one_by_one_if_that_is_what_the_broker_does() -> None:
    async def work(stage: Stage) -> None:
        receiver = await stage.join()
        stage.publish(3)
        found = await receiver.receive(3, 1.0)
        await receiver.acknowledge([found[2]])
        await receiver.release([found[0]])
        assert offsets(await receiver.receive(3, 1.0)) == [0]
        await receiver.close()
        assert offsets(await (await stage.join("two")).receive(3, 1.0)) == [0, 1]

    play(work, Kind(Acknowledgement.EACH))


def test_a_message_released_for_some_time_lets_the_others_go_first() -> None:
    async def work(stage: Stage) -> None:
        receiver = await stage.join()
        stage.publish(3)
        found = await receiver.receive(3, 1.0)
        await receiver.release([found[0]], 5.0)
        assert receiver.lost(found[0])
        assert receiver.lost(found[2])
        found = await receiver.receive(3, 1.0)
        assert offsets(found) == [1, 2]
        await receiver.acknowledge([found[1]])
        assert await receiver.receive(3, 1.0) == []
        [late] = await receiver.receive(3, 9.0)
        assert (late.offset, late.attempt) == (0, 2)

    play(work)


def test_a_member_whose_partition_was_taken_cannot_acknowledge() -> None:
    async def work(stage: Stage) -> None:
        first = await stage.join()
        stage.publish(2)
        found = await first.receive(2, 1.0)
        stage.server.move(("c", 0))
        assert not first.lost(found[0]), "it does not know yet"
        with pytest.raises(Revoked):
            await first.acknowledge([found[1]])
        assert first.lost(found[0])
        assert offsets(await first.receive(2, 1.0)) == [0, 1]

    play(work)


def test_a_silent_member_is_out_after_its_lease() -> None:
    async def work(stage: Stage) -> None:
        loop = stage.server.loop
        process = Process("one")
        first = await loop.spawn(process, stage.join())
        stage.publish(2)
        await first.receive(2, 1.0)
        loop.kill(process)
        other = await stage.join("two")
        assert await other.receive(2, LEASE_S / 2) == []
        assert offsets(await other.receive(2, LEASE_S)) == [0, 1]
        with pytest.raises(BrokerUnavailable):
            await first.extend()

    play(work)


def test_partitions_are_shared_and_handed_over_when_they_are_idle() -> None:
    async def work(stage: Stage) -> None:
        first = await stage.join()
        assert first.partitions == 0, "it has not asked yet"
        stage.publish(1, partition=0)
        stage.publish(1, partition=1)
        found = await first.receive(10, 1.0)
        second = await stage.join("two")
        assert len(first.leaving) == 1
        assert await second.receive(10, HANDOVER_S / 2) == []
        await first.acknowledge(found)
        assert list(first.leaving) == []
        stage.publish(1, partition=0)
        stage.publish(1, partition=1)
        assert len(await first.receive(10, 1.0)) == len(await second.receive(10, 1.0)) == 1

    play(work, partitions=2)


def test_what_is_never_finished_is_handed_over_after_a_while() -> None:
    async def work(stage: Stage) -> None:
        first = await stage.join()
        stage.publish(1, partition=0)
        stage.publish(1, partition=1)
        await first.receive(10, 1.0)
        second = await stage.join("two")
        [found] = await second.receive(10, HANDOVER_S + 1)
        assert found.attempt == 2

    play(work, partitions=2)


def test_partitions_can_be_left_out() -> None:
    async def work(stage: Stage) -> None:
        receiver = await stage.join()
        stage.publish(1, partition=0)
        stage.publish(1, partition=1)
        receiver.hold([("c", 0)])
        assert [message.partition for message in await receiver.receive(10, 1.0)] == [1]
        receiver.hold([])
        assert [message.partition for message in await receiver.receive(10, 1.0)] == [0]

    play(work, partitions=2)


@pytest.mark.parametrize("holding", [False, True])
@pytest.mark.parametrize("leaving", [False, True])
def test_a_receiver_has_what_its_kind_says(holding: bool, leaving: bool) -> None:
    async def work(stage: Stage) -> None:
        receiver = await stage.join()
        assert isinstance(receiver, HoldingReceiver) is holding
        assert isinstance(receiver, LeavingReceiver) is leaving

    play(work, Kind(holding=holding, leaving=leaving))


@pytest.mark.parametrize("how", [How.BEFORE, How.AFTER, How.HANG, How.HANG_AFTER])
def test_an_acknowledgement_that_fails_may_have_taken_effect(how: How) -> None:
    async def work(stage: Stage) -> None:
        receiver = await stage.join()
        stage.publish(1)
        found = await receiver.receive(1, 1.0)
        stage.connections["one"].link.fail("acknowledge", how)
        with pytest.raises(BrokerUnavailable):
            await receiver.acknowledge(found)
        settled = stage.server.groups["g"].shares["c", 0].settled
        assert settled == (set() if how in (How.BEFORE, How.HANG) else {0})

    play(work)


@pytest.mark.parametrize("how", [How.AFTER, How.SLOW])
def test_what_a_broken_or_cancelled_receive_has_taken_comes_with_the_next(how: How) -> None:
    async def work(stage: Stage) -> None:
        receiver = await stage.join()
        stage.publish(2)
        stage.connections["one"].link.fail("receive", how)
        with pytest.raises((BrokerUnavailable, TimeoutError)):
            async with asyncio.timeout(1.0):
                await receiver.receive(2, 0.5)
        assert offsets(await receiver.receive(2, 1.0)) == [0, 1]

    play(work)


def test_what_the_caller_has_not_seen_is_not_acknowledged_with_later_messages() -> None:
    async def work(stage: Stage) -> None:
        receiver = await stage.join()
        stage.publish(2)
        first, _ = await receiver.receive(2, 1.0)
        await receiver.release([first], 2.0)
        [later] = await receiver.receive(1, 1.0)
        await asyncio.sleep(3.0)
        stage.connections["one"].link.fail("receive", How.AFTER)
        with pytest.raises(BrokerUnavailable):
            await receiver.receive(1, 1.0)
        await receiver.acknowledge([later])
        assert offsets(await receiver.receive(1, 1.0)) == [0]

    play(work)


def test_nobody_gets_through_a_cut() -> None:
    async def work(stage: Stage) -> None:
        receiver = await stage.join()
        link = stage.connections["one"].link
        link.is_cut = True
        for call in (receiver.extend(), stage.connections["one"].publish([Message("c", b"")])):
            with pytest.raises(BrokerUnavailable):
                await call
        link.heal()
        await receiver.extend()
        assert link.failures == 2

    play(work)


def test_an_unknown_channel_is_refused() -> None:
    async def work(stage: Stage) -> None:
        with pytest.raises(ChannelNotFound):
            await stage.join(channel="d")

    play(work)
