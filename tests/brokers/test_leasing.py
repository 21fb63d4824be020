"""Members lease partitions from each other: the slow keep theirs, the dead do not, nobody writes too late."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.broker import Sharing
from dragoman.core.errors import BrokerUnavailable, ConfigurationError, GroupTaken, Revoked
from dragoman.core.leasing import LeasedReceiver, ShareRecord, Stored, committed_in
from dragoman.core.leasing.roster import Roster
from dragoman.core.message import Message
from dragoman.core.progress import Progress
from dragoman.core.seeking import DISORDER, seek
from tests.brokers.leased import Lines, Shelf, Time, clock, member

__all__ = ["clock"]


async def payloads(receiver: LeasedReceiver, limit: int = 100) -> list[bytes | None]:
    return [message.payload for message in await receiver.receive(limit, 0.0)]


async def beat(clock: Time, seconds: float, *receivers: LeasedReceiver) -> None:
    """Time goes on, and these members show that they live."""
    for _ in range(int(seconds)):
        clock.now += 1.0
        for receiver in receivers:
            await receiver.extend()


async def test_a_slow_member_that_lives_keeps_its_messages(clock: Time) -> None:
    shelf, lines = Shelf(), Lines(1)
    lines.add(0, b"a", b"b")
    slow, _ = await member("slow", shelf, lines, Sharing.FAILOVER)
    other, _ = await member("other", shelf, lines, Sharing.FAILOVER)
    held = await slow.receive(10, 0.0)

    await beat(clock, 60, slow, other)

    assert await payloads(other) == []
    await slow.acknowledge(held[-1:])
    assert not slow.lost(held[0])


async def test_a_member_that_hangs_is_out_after_its_lease_and_can_change_nothing_more(clock: Time) -> None:
    shelf, lines = Shelf(), Lines(1)
    lines.add(0, b"a", b"b")
    hanging, _ = await member("hanging", shelf, lines, Sharing.FAILOVER)
    other, _ = await member("other", shelf, lines, Sharing.FAILOVER)
    held = await hanging.receive(10, 0.0)

    await beat(clock, 12, other)
    again = await other.receive(10, 0.0)

    assert [(message.payload, message.attempt) for message in again] == [(b"a", 2), (b"b", 2)]
    with pytest.raises(Revoked):
        await hanging.acknowledge(held[-1:])
    assert all(hanging.lost(message) for message in held)
    lines.add(0, b"c")
    assert await payloads(hanging) == []
    await other.acknowledge(again[-1:])
    assert await payloads(other) == [b"c"]


async def test_a_member_beats_although_others_do_so_while_it_waits_for_the_answer_of_a_slow_one(
    clock: Time,
) -> None:
    shelf, lines = Shelf(), Lines(2)
    living, records = await member("living", shelf, lines)
    await member("silent", shelf, lines)
    await beat(clock, 1, living)
    begun = Roster.decode(shelf.records["roster"].data).members["living"].beat

    async def gone(seats: Collection[str]) -> set[str]:
        """It takes a second, and each time another member has changed the roster meanwhile."""
        clock.now += 1.0
        stored = shelf.records["roster"]
        shelf.records["roster"] = Stored(stored.data, stored.revision + 1)
        return set()

    records.gone = gone  # type: ignore[method-assign]
    clock.now += 5.0
    await living.extend()

    assert Roster.decode(shelf.records["roster"].data).members["living"].beat > begun


async def test_what_retention_removed_before_a_message_is_not_delivered_with_it(clock: Time) -> None:
    shelf, lines = Shelf(), Lines(1)
    first = 1_000_000
    lines.lines[0].append(Message("c", b"kept", partition=0, offset=first))
    dead, _ = await member("dead", shelf, lines, Sharing.FAILOVER)
    other, _ = await member("other", shelf, lines, Sharing.FAILOVER)
    assert await payloads(dead) == [b"kept"]

    await beat(clock, 12, other)

    [again] = await other.receive(10, 0.0)
    assert (again.payload, again.attempt) == (b"kept", 2)
    progress = ShareRecord.decode(shelf.records["0"].data).progress
    assert (progress.committed, progress.tried) == (first, {first: 1})
    await other.acknowledge([again])
    assert ShareRecord.decode(shelf.records["0"].data).progress.committed == first + 1


async def test_a_member_that_lost_its_connection_is_out_soon_but_may_come_back(clock: Time) -> None:
    shelf, lines = Shelf(), Lines(2)
    quick, seated = await member("quick", shelf, lines)
    dead, _ = await member("dead", shelf, lines)
    other, _ = await member("other", shelf, lines)
    await beat(clock, 3, quick, dead, other)
    shelf.left = {"seat of dead", "seat of quick"}

    await beat(clock, 1, other)
    seated.taken = "new seat of quick"
    await beat(clock, 5, quick, other)
    for partition in range(2):
        lines.add(partition, b"%d" % partition)

    found = await payloads(quick) + await payloads(other)
    assert sorted(found, key=str) == [b"0", b"1"]
    assert await payloads(dead) == []


async def test_partitions_are_handed_over_when_what_is_in_flight_is_done(clock: Time) -> None:
    shelf, lines = Shelf(), Lines(2)
    lines.add(0, b"a")
    lines.add(1, b"b")
    first, _ = await member("first", shelf, lines)
    held = await first.receive(10, 0.0)
    second, _ = await member("second", shelf, lines)

    await beat(clock, 2, first, second)
    assert await payloads(second) == []

    await first.acknowledge(held)
    await beat(clock, 2, first, second)
    for partition in range(2):
        lines.add(partition, b"later")
    assert await payloads(first) == [b"later"]
    assert await payloads(second) == [b"later"]


async def test_what_takes_too_long_to_finish_is_handed_over_nonetheless(clock: Time) -> None:
    shelf, lines = Shelf(), Lines(2)
    lines.add(0, b"a")
    lines.add(1, b"b")
    first, _ = await member("first", shelf, lines)
    held = await first.receive(10, 0.0)
    second, _ = await member("second", shelf, lines)

    await beat(clock, 8, first, second)

    again = await second.receive(10, 0.0)
    assert [message.attempt for message in again] == [2]
    assert sum(first.lost(message) for message in held) == 1


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_an_acknowledgement_that_was_not_answered_can_be_repeated(clock: Time, moment: str) -> None:
    shelf, lines = Shelf(), Lines(1)
    lines.add(0, b"a", b"b", b"c")
    receiver, _ = await member("one", shelf, lines)
    held = await receiver.receive(2, 0.0)
    shelf.failing = moment
    with pytest.raises(BrokerUnavailable):
        await receiver.acknowledge(held[-1:])
    shelf.failing = None

    await receiver.acknowledge(held[-1:])

    assert await payloads(receiver) == [b"c"]
    assert ShareRecord.decode(shelf.records["0"].data).progress.committed == 2


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_an_acknowledgement_that_was_not_answered_is_written_down_if_nothing_else_happens(
    clock: Time, moment: str
) -> None:
    shelf, lines = Shelf(), Lines(1)
    lines.add(0, b"a")
    receiver, _ = await member("one", shelf, lines)
    held = await receiver.receive(10, 0.0)
    shelf.failing = moment
    with pytest.raises(BrokerUnavailable):
        await receiver.acknowledge(held)
    shelf.failing = None
    await receiver.extend()
    assert committed_in(shelf.records["0"].data) == 1


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_delivery_that_was_not_answered_comes_with_the_next(clock: Time, moment: str) -> None:
    shelf, lines = Shelf(), Lines(1)
    lines.add(0, b"a", b"b")
    receiver, _ = await member("one", shelf, lines)
    shelf.failing = moment
    with pytest.raises(BrokerUnavailable):
        await receiver.receive(10, 0.0)
    shelf.failing = None

    assert await payloads(receiver) == [b"a", b"b"]


async def receive_and_cancel(receiver: LeasedReceiver, turns: int) -> bool:
    """Receive, and cancel that after so many turns of the loop; whether it was not done by then."""
    receiving = asyncio.create_task(receiver.receive(10, 0.0))
    for _ in range(turns):
        await asyncio.sleep(0)
    receiving.cancel()
    await asyncio.wait([receiving])
    return receiving.cancelled()


@pytest.mark.parametrize("turns", range(8))
async def test_what_a_cancelled_receive_has_taken_comes_with_the_next(clock: Time, turns: int) -> None:
    shelf, lines = Shelf(), Lines(1)
    lines.add(0, b"a")
    receiver, _ = await member("one", shelf, lines)
    if await receive_and_cancel(receiver, turns):
        assert await payloads(receiver) == [b"a"]


@pytest.mark.parametrize("turns", range(8))
async def test_what_was_never_given_out_is_not_acknowledged_with_later_messages(
    clock: Time, turns: int
) -> None:
    shelf, lines = Shelf(), Lines(1)
    lines.add(0, b"a", b"b")
    receiver, _ = await member("one", shelf, lines)
    [first, _] = await receiver.receive(10, 0.0)
    await receiver.release([first], 5.0)
    [later] = await receiver.receive(10, 0.0)
    clock.now += 5.0
    if await receive_and_cancel(receiver, turns):
        await receiver.acknowledge([later])
        assert await payloads(receiver) == [b"a"]


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_claim_that_was_not_answered_is_made_again(clock: Time, moment: str) -> None:
    shelf, lines = Shelf(), Lines(1)
    lines.add(0, b"a")
    first, _ = await member("first", shelf, lines, Sharing.FAILOVER)
    second, _ = await member("second", shelf, lines, Sharing.FAILOVER)
    await first.close()
    clock.now += 1.0
    shelf.failing, shelf.only = moment, "0"
    with pytest.raises(BrokerUnavailable):
        await second.receive(10, 0.0)
    shelf.failing = None
    clock.now += 1.0

    assert await payloads(second) == [b"a"]


async def test_an_exclusive_group_has_one_member(clock: Time) -> None:
    shelf, lines = Shelf(), Lines(1)
    await member("first", shelf, lines, Sharing.EXCLUSIVE)
    with pytest.raises(GroupTaken):
        await member("second", shelf, lines, Sharing.EXCLUSIVE)
    with pytest.raises(GroupTaken):
        await member("third", shelf, lines)


async def test_a_group_is_of_one_kind(clock: Time) -> None:
    shelf, lines = Shelf(), Lines(1)
    await member("first", shelf, lines)
    with pytest.raises(ConfigurationError):
        await member("second", shelf, lines, durable=False)
    with pytest.raises(ConfigurationError):
        await member("third", shelf, lines, Sharing.FAILOVER)


async def test_a_temporary_group_leaves_nothing_behind(clock: Time) -> None:
    shelf, lines = Shelf(), Lines(2)
    first, _ = await member("first", shelf, lines, durable=False)
    second, _ = await member("second", shelf, lines, durable=False)
    await first.close()
    assert shelf.records
    await second.close()
    assert not shelf.records


@given(
    st.integers(0, 50),
    st.lists(st.tuples(st.sampled_from("dars"), st.integers(0, 10)), max_size=40),
)
@settings(max_examples=60, deadline=None)
def test_progress_survives_being_written_down(start: int, steps: list[tuple[str, int]]) -> None:
    progress = Progress(start)
    for step, number in steps:
        offset = progress.position + number
        if step == "d":
            progress.step_over()
            progress.cursor += number
        elif step == "a" and progress.in_flight(offset):
            progress.acknowledge(offset)
        elif step == "r" and progress.in_flight(offset):
            progress.release([offset], float(number) if number % 2 else None)
        elif step == "s":
            progress.take_due(float(number), 3)

    found = ShareRecord.decode(ShareRecord(7, progress).encode())

    assert found.epoch == 7
    aside = found.progress.aside
    assert {offset: one.tried for offset, one in aside.items()} == {
        offset: one.tried for offset, one in progress.aside.items()
    }
    dues = {offset: one.due for offset, one in progress.aside.items()}
    assert {offset: one.due for offset, one in aside.items()} == pytest.approx(dues, abs=1.0)
    for name in ("position", "cursor", "tried", "returned", "committed"):
        assert getattr(found.progress, name) == getattr(progress, name), name


@given(st.lists(st.integers(0, DISORDER), max_size=60), st.integers(-10, 70 * DISORDER), st.data())
@settings(max_examples=100, deadline=None)
def test_a_moment_is_found_although_clocks_differ(noise: list[int], moment: int, data: st.DataObject) -> None:
    """Timestamps that rise by themselves, each too late by less than the disorder that is allowed for."""
    messages = [
        (2 * number, 30_000 * number + wrong)
        for number, wrong in enumerate(noise)
        if data.draw(st.integers(0, 3)) > 0
    ]
    end = 2 * len(noise)

    def stamps(offset: int, count: int) -> list[tuple[int, int]]:
        return [each for each in messages if each[0] >= offset][: min(count, 7)]

    expected = next((offset for offset, stamp in messages if stamp >= moment), end)
    assert seek(0, end, moment, stamps) == expected
