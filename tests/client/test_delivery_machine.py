"""The delivery loop against a reference: whatever happens in whatever order, no message is lost.

The reference knows only the broker port's promises. It refuses every acknowledgement that would do away with
a message whose handler has not finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from math import inf
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from dragoman import Message
from dragoman.client import flight
from dragoman.client.flight import Flight
from dragoman.client.lane import Direct, Intake, Reading
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import DONE, Outcome, again
from dragoman.core.errors import BrokerUnavailable, Revoked
from dragoman.core.run import Run

PARTITIONS = 1
"""The fewer, the more often do steps meet each other."""


@dataclass
class Partition:
    """Offsets that wait for delivery, are in flight, wait for their time, or are done."""

    waiting: list[int] = field(default_factory=list)
    flying: set[int] = field(default_factory=set)
    aside: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    revoked: set[int] = field(default_factory=set)
    """Delivered under an earlier ownership, and not yet delivered anew."""

    def give_back(self, offsets: set[int]) -> None:
        self.flying -= offsets
        self.waiting = sorted({*self.waiting, *offsets})


class Reference:
    """The receiver as the port promises it."""

    def __init__(self, cumulative: bool, partitions: list[Partition]) -> None:
        self.cumulative = cumulative
        self.places = partitions
        self.partitions = len(partitions) + 1
        self.succeeded: set[tuple[int, int]] = set()
        self.leaving: set[tuple[str, int | None]] = set()
        self.broken = 0

    def deliver(self, partition: int, count: int) -> list[Message]:
        place = self.places[partition]
        taken, place.waiting = place.waiting[:count], place.waiting[count:]
        place.flying |= set(taken)
        place.revoked -= set(taken)
        return [Message("c", b"", b"%d" % (offset % 3), (), partition, offset, 0) for offset in taken]

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        self._break()
        late = False
        for message in messages:
            partition, offset = message.partition or 0, message.offset or 0
            place = self.places[partition]
            if offset not in place.flying:
                late = True
                continue
            ends = {one for one in place.flying if one <= offset} if self.cumulative else {offset}
            for one in ends:
                assert (partition, one) in self.succeeded, "acknowledged before it was handled"
            place.flying -= ends
            place.done |= ends
        if late:
            raise Revoked("late")

    async def release(self, messages: Sequence[Message], delay: float = 0.0) -> None:
        self._break()
        for message in messages:
            place, offset = self.places[message.partition or 0], message.offset or 0
            if offset not in place.flying:
                raise Revoked("late")
            later = {one for one in place.flying if one > offset} if self.cumulative else set()
            if delay:
                place.flying.discard(offset)
                place.aside.add(offset)
                place.give_back(later)
            else:
                place.give_back({offset, *later})

    async def receive(self, limit: int, timeout: float) -> Sequence[Message]:
        raise NotImplementedError

    def hold(self, places: Collection[tuple[str, int | None]]) -> None: ...

    async def extend(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    def lost(self, message: Message) -> bool:
        return (message.offset or 0) not in self.places[message.partition or 0].flying

    def _break(self) -> None:
        if self.broken:
            self.broken -= 1
            raise BrokerUnavailable("broken by the test")


class Wanted(Exception):
    """What a function that gives nothing wants to become of its message."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


class DeliveryMachine(RuleBasedStateMachine):
    @initialize(
        cumulative=st.booleans(),
        direct=st.booleans(),
        asking=st.booleans(),
        concurrency=st.sampled_from([1, 3]),
        sizes=st.lists(st.integers(0, 5), min_size=PARTITIONS, max_size=PARTITIONS),
    )
    def begin(self, cumulative: bool, direct: bool, asking: bool, concurrency: int, sizes: list[int]) -> None:
        # Whether a partition is still ours is asked now and then: here before each message, or never.
        self.patience = patch.object(flight, "_OURS_FOR", -1.0 if asking else inf)
        self.patience.start()
        self.loop = asyncio.new_event_loop()
        self.sizes = sizes
        self.concurrency = concurrency
        self.receiver = Reference(cumulative, [Partition(list(range(size))) for size in sizes])
        self.running: dict[int, tuple[Message, asyncio.Future[Outcome]]] = {}
        self.serial = 0
        ahead = Direct(self._read, self._failed) if direct else None
        self.counters, self.succeeded = ChannelMetrics(), 0
        intake = Intake(self._handle, concurrency, self.counters, direct=ahead)
        self.flight = Flight(self.receiver, cumulative, {"c": intake})

    def _read(self, run: Run, places: Sequence[int]) -> Reading | None:
        """Values are the messages themselves. Some offsets have none."""
        values = list(takewhile(lambda each: (each.offset or 0) % 4 != 2, map(run.one, places)))
        return (self._call, values) if values else None

    async def _call(self, message: Message) -> None:
        outcome = await self._handle(message)
        if outcome is not DONE:
            raise Wanted(outcome)

    async def _failed(self, message: Message, error: Exception) -> Outcome:
        if isinstance(error, Wanted):
            return error.outcome
        raise error

    async def _handle(self, message: Message) -> Outcome:
        self.serial += 1
        number, end = self.serial, asyncio.get_running_loop().create_future()
        self.running[number] = (message, end)
        try:
            outcome: Outcome = await end
            return outcome
        finally:
            del self.running[number]

    def _tick(self) -> None:
        async def ticks() -> None:
            for _ in range(6):
                await asyncio.sleep(0)

        self.loop.run_until_complete(ticks())

    def _end(self, pick: int, outcome: Outcome | Exception) -> None:
        number = sorted(self.running)[pick % len(self.running)]
        message, end = self.running[number]
        if outcome is DONE:
            self.succeeded += 1
            self.receiver.succeeded.add((message.partition or 0, message.offset or 0))
        if isinstance(outcome, Exception):
            end.set_exception(outcome)
        else:
            end.set_result(outcome)
        self._tick()

    @rule(partition=st.integers(0, PARTITIONS - 1), count=st.integers(1, 6))
    def receive(self, partition: int, count: int) -> None:
        async def take() -> None:
            self.flight.take(self.receiver.deliver(partition, count))

        self.loop.run_until_complete(take())
        self._tick()

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 20))
    def succeed(self, pick: int) -> None:
        self._end(pick, DONE)

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 20), delay=st.sampled_from([0.0, 5.0]))
    def give_back(self, pick: int, delay: float) -> None:
        self._end(pick, again(delay))

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 20))
    def fail(self, pick: int) -> None:
        self._end(pick, ValueError("by the test"))

    @rule(broken=st.sampled_from([0, 0, 1]))
    def settle(self, broken: int) -> None:
        self.receiver.broken = broken
        try:
            self.loop.run_until_complete(self.flight.settle())
        except BrokerUnavailable:
            assert broken
        self.receiver.broken = 0
        self._tick()

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def revoke(self, partition: int) -> None:
        """Another member had the partition for a moment: all in flight comes again."""
        place = self.receiver.places[partition]
        place.revoked |= place.flying
        place.give_back(set(place.flying))

    @rule(window=st.integers(2, 6))
    def look_for_room(self, window: int) -> None:
        """When it is used up, what has gone to another member is dropped."""
        self.flight.room(window)

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def make_way(self, partition: int) -> None:
        """The partition is about to move: what is not needed here is given back, and nothing of it begins."""
        place = self.receiver.places[partition]
        self.receiver.leaving = {("c", partition)}
        self.settle(0)
        self.receiver.leaving = set()
        if self.receiver.cumulative and not place.revoked:
            begun = {offset for number, offset in self.receiver.succeeded if number == partition}
            begun |= {message.offset or 0 for message, _ in self.running.values()}
            assert max(place.flying, default=-1) <= max(begun, default=-1)

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def come_due(self, partition: int) -> None:
        place = self.receiver.places[partition]
        place.waiting = sorted({*place.waiting, *place.aside})
        place.aside.clear()

    @invariant()
    def handlers_are_as_many_as_allowed(self) -> None:
        if not hasattr(self, "running"):
            return
        for partition in range(PARTITIONS):
            at_work = [message for message, _ in self.running.values() if message.partition == partition]
            assert len(at_work) <= self.concurrency
            keys = [message.key for message in at_work]
            assert len(keys) == len(set(keys))

    @invariant()
    def each_message_received_has_one_end(self) -> None:
        if not hasattr(self, "running"):
            return
        queued = sum(len(lane) for place in self.flight._places.values() for lane in place.lanes)
        counters = self.counters
        ended = self.succeeded + counters.returned + counters.revoked + counters.ignored
        assert counters.received == ended + len(self.running) + queued

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            self._finish_everything()
        finally:
            self.loop.run_until_complete(self.flight.stop())
            self.loop.close()
            self.patience.stop()

    def _finish_everything(self) -> None:
        for _ in range(200):
            done = all(len(place.done) == size for place, size in zip(self._places, self.sizes, strict=True))
            # What came again may be in flight still, though it is done by its first delivery.
            if done and not self.flight.count:
                break
            for partition in range(PARTITIONS):
                self.come_due(partition)
                self.receive(partition, 100)
            while self.running:
                self.succeed(0)
            self.settle(0)
        for number, (place, size) in enumerate(zip(self._places, self.sizes, strict=True)):
            assert place.done == set(range(size)), f"partition {number} is not done with"
        assert self.flight.count == 0

    @property
    def _places(self) -> list[Partition]:
        return self.receiver.places


DeliveryMachine.TestCase.settings = settings(max_examples=500, stateful_step_count=40, deadline=None)
TestDelivery = DeliveryMachine.TestCase
