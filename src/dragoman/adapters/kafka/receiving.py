"""A member of a Kafka group.

One thread polls without pause, whatever the handlers do, so the member is never thrown out for being slow.
What it brings waits in queues that are bounded in messages and in bytes. A partition that fills them is
paused, so that the others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Raw

from dragoman.adapters.kafka.administration import TIMEOUT, position, stored_offsets
from dragoman.adapters.kafka.errands import Errands, NotYet
from dragoman.adapters.kafka.faults import faults, translated
from dragoman.adapters.kafka.holding import Holding
from dragoman.adapters.kafka.ownership import Ownership
from dragoman.adapters.kafka.reading import fetched
from dragoman.core.broker import Subscription, revoked
from dragoman.core.errors import BrokerError, BrokerUnavailable, DragomanError
from dragoman.core.message import Message, place_of
from dragoman.core.run import Run, Runs

log = logging.getLogger("dragoman.kafka")

Place = tuple[str, int | None]

ROOM = 10_000
"""Messages that wait in all queues together at most."""
_ROOM_AGAIN = 0.75
"""Queues that were full have room again when they are filled to this part."""
_BATCH = 4_000
_HELD_BACK = (
    "It is tried again. If the server is up, a process has died in a transaction, which ends by itself after "
    "transaction.timeout.ms (30 seconds)."
)
_TICK = 0.1
_BUSY_TICK = 0.005
"""While messages are in flight: the driver lets nobody commit while it polls, so errands wait for it."""
_FULL_FOR = 1.0
"""So long the queues may be full before partitions are paused, which throws away what was fetched ahead."""
_JOINED_WITHIN = 5.0
"""Seconds after which a member that was given no partition has joined all the same: there are not enough.

The first one of a group waits three for others to come, by the server's default.
"""
_PASSING = frozenset(
    getattr(KafkaError, name)
    for name in (
        "_PARTITION_EOF",
        "_TRANSPORT",
        "_ALL_BROKERS_DOWN",
        "_TIMED_OUT",
        "_RESOLVE",
        "_MAX_POLL_EXCEEDED",
    )
)
UNSETTLED = frozenset(
    getattr(KafkaError, name)
    for name in (
        "REBALANCE_IN_PROGRESS",
        "ILLEGAL_GENERATION",
        "UNKNOWN_MEMBER_ID",
        "STALE_MEMBER_EPOCH",
        "_STATE",
    )
)


class KafkaReceiver:
    """Implements ``dragoman.core.broker.Receiver``.

    Kafka counts no deliveries: attempts are counted by the member that a message was given back by, and start
    anew when the partition moves. ``release`` delivers from the message on again; with a delay the partition
    waits that long. A partition that is to move waits until what is in flight is done, for
    ``handover`` seconds at most.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        subscription: Subscription,
        starts: Mapping[tuple[str, int], int],
        handover: float,
        room: Callable[[], int],
        ownership: Ownership | None = None,
        farewell: Callable[[], None] | None = None,
    ) -> None:
        """``room`` tells how many bytes may wait in the queues; it is called in the polling thread.

        ``farewell`` is called in a thread once the group is left.
        """
        self.closed = False
        self.group = subscription.group
        self._durable = subscription.durable
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Future[None] | None = None
        self._changed = threading.Condition(threading.RLock())
        self._holdings: dict[Place, Holding] = {}
        self.failure: DragomanError | None = None
        """What befell it since the last ``receive``, which raises it."""
        self._held: Collection[Place] = ()
        self.leaving: Collection[Place] = ()
        self._starts: Mapping[Any, int] = starts
        self._handover = handover
        self._room = room
        self._ownership = ownership
        self._farewell = farewell
        self._begun = time.monotonic()
        self._was_assigned = False
        with faults(group=self.group):
            self.consumer = Consumer(dict(settings))
            self.consumer.subscribe(
                list(subscription.channels) if ownership is None else [ownership.topic],
                on_assign=self._assigned,
                on_revoke=self._revoked,
                on_lost=self._lost,
            )
        self._errands = Errands(self._changed)
        self._thread = threading.Thread(target=self._poll, name="dragoman-kafka-consumer", daemon=True)
        self._thread.start()

    @property
    def owns(self) -> bool:
        """Whether partitions are ours."""
        return bool(self._holdings)

    async def receive(self, limit: int, timeout: float) -> Sequence[Message]:
        deadline = self._loop.time() + timeout
        while True:
            with self._changed:
                taken = self._take(limit)
                remaining = deadline - self._loop.time()
                if taken or remaining <= 0:
                    return taken
                arrived = self._arrived = self._loop.create_future()
                remaining = min(remaining, self._until_due())
            timer = self._loop.call_later(remaining, _finish, arrived)
            try:
                await arrived
            finally:
                timer.cancel()

    def _take(self, limit: int) -> Runs:
        if self.closed:
            raise BrokerUnavailable("The receiver is closed.", next="Subscribe again.", group=self.group)
        taken: list[Run] = []
        now = time.monotonic()
        for place in [place for place, holding in self._holdings.items() if holding.queue]:
            holding = self._holdings[place]
            if holding.waits_until > now or holding.leaving or place in self._held:
                continue
            runs = holding.deliver(limit)
            taken += runs
            limit -= sum(map(len, runs))
            # Whoever was served goes to the end, so that all have their turn.
            self._holdings[place] = self._holdings.pop(place)
            if limit <= 0:
                break
        if taken:
            self._changed.notify_all()
        elif self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        return Runs(taken)

    def _until_due(self) -> float:
        """Seconds until one that was given back for later may be delivered."""
        now = time.monotonic()
        dues = (holding.waits_until - now for holding in self._holdings.values() if holding.queue)
        return min((due for due in dues if due > 0), default=math.inf)

    def _wake(self) -> None:
        # The loop may be gone: then nobody waits.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        if self._arrived is not None:
            _finish(self._arrived)

    @property
    def partitions(self) -> int:
        return len(self._holdings)

    def hold(self, places: Collection[Place]) -> None:
        self._held = places

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        kept = [message for message in messages if not self.lost(message)]
        if kept:
            kept = await self._errands.ask(lambda: self._commit(kept))
        if len(kept) < len(messages):
            raise revoked(next(message for message in messages if message not in kept), self.group)

    def _commit(self, messages: list[Message]) -> list[Message]:
        """Those that could be committed: the others have gone to another member meanwhile."""
        with self._changed:
            kept = [message for message in messages if not self.lost(message)]
            offsets = self.positions_after(kept)
        if offsets:
            try:
                for answer in self.consumer.commit(offsets=offsets, asynchronous=False) or ():
                    if answer.error is not None:
                        raise KafkaException(answer.error)
            except KafkaException as error:
                fault = error.args[0]
                failure = translated(fault, group=self.group)
                # Partitions are being dealt out: soon we know whether these are still ours.
                raise (NotYet(failure) if fault.code() in UNSETTLED else failure) from error
        self.finish(kept)
        return kept

    def positions_after(self, messages: Iterable[Message]) -> list[Any]:
        """Per partition the offset to go on at; none where that is committed already."""
        ends: dict[Place, int] = {}
        for message in messages:
            place = place_of(message)
            ends[place] = max(ends.get(place, 0), (message.offset or 0) + 1)
        holdings = self._holdings
        return [
            position(place, end, self._durable)
            for place, end in ends.items()
            if place not in holdings or holdings[place].done < end
        ]

    def finish(self, messages: Iterable[Message]) -> None:
        with self._changed:
            for message in messages:
                holding = self._holdings.get(place_of(message))
                if holding is not None:
                    holding.finish(message.offset or 0)
            self._changed.notify_all()

    async def release(self, messages: Sequence[Message], delay: float = 0.0) -> None:
        with self._changed:
            late = next((message for message in messages if self.lost(message)), None)
            offsets: dict[Place, list[int]] = {}
            for message in messages:
                if not self.lost(message):
                    offsets.setdefault(place_of(message), []).append(message.offset or 0)
            for place, some in offsets.items():
                holding = self._holdings[place]
                holding.give_back(some)
                if delay > 0:
                    holding.waits_until = time.monotonic() + delay
        if late is not None:
            raise revoked(late, self.group)

    async def group_metadata(self) -> Any:
        """What a transaction needs to acknowledge for this member, and for no other."""
        return await self._errands.ask(self.consumer.consumer_group_metadata)

    async def member_id(self) -> str:
        """What the server calls this member; nothing before it has joined."""
        return str(await self._errands.ask(self.consumer.memberid) or "")

    def lost(self, message: Message) -> bool:
        holding = self._holdings.get((message.channel, message.partition))
        return holding is None or (message.offset or 0) >= holding.cursor

    async def extend(self) -> None:
        """The polling thread keeps the membership alive."""

    async def close(self) -> None:
        if self.closed:
            return
        with self._changed:
            self.closed = True
            self._holdings.clear()
            self._changed.notify_all()
        self._tell()
        await asyncio.to_thread(self._leave)

    def _leave(self) -> None:
        self._thread.join()
        self._errands.end()
        for step in (self._say_goodbye, self.consumer.close):
            with contextlib.suppress(RuntimeError, KafkaException):
                step()
        if self._farewell is not None:
            with contextlib.suppress(BrokerError):
                self._farewell()

    def _say_goodbye(self) -> None:
        """Without it the server, and so the others, would wait for two kinds of members until they time out.

        One that leaves while it joins is not said to leave at all, one without partitions not by ``close``
        alone.
        """
        while not self._was_assigned and time.monotonic() < self._begun + _JOINED_WITHIN:
            self.consumer.poll(_BUSY_TICK)
        self.consumer.unsubscribe()
        self.consumer.poll(_BUSY_TICK)

    def _poll(self) -> None:
        while not self.closed:
            try:
                self._await_room()
                self._errands.run()
                with faults(group=self.group):
                    found = self.consumer.consume(_BATCH, 0)
                    # ``consume`` would wait until it has as many as it may bring.
                    if not found and (first := self.consumer.poll(self._tick())) is not None:
                        found = [first]
                if found:
                    self._keep(found)
                self._tend()
            except DragomanError as error:
                self._fail(error)
            except Exception as error:
                self._fail(BrokerError(f"Receiving from Kafka failed: {error!r}.", group=self.group))

    def _tick(self) -> float:
        with self._changed:
            active = any(holding.busy or holding.queue for holding in self._holdings.values())
        return _BUSY_TICK if active else _TICK

    def _await_room(self) -> None:
        """Wait while the queues are full. If they stay so, pause the partitions with more than their share.

        All shares together are half of the room: the partitions that go on always have the other half.
        """
        if self._filled() < 1:
            return
        if not self._errands.run_until(lambda: self.closed or self._filled() <= _ROOM_AGAIN, _FULL_FOR):
            with self._changed:
                share = self._share()
                for place, holding in self._holdings.items():
                    if not holding.full and holding.filled(*share) > 1:
                        holding.trim(*share)
                        self._pause(place, holding)

    def _filled(self) -> float:
        """How full the queues are, by messages or by bytes. From 1.0 on, nothing more is fetched.

        Partitions that are full wait until they are emptied. The others have the room that those leave, and
        half of it at least: the first message of each full one stays, however large it is.
        """
        with self._changed:
            full = [holding for holding in self._holdings.values() if holding.full]
            others = [holding for holding in self._holdings.values() if not holding.full]
            counts = [sum(holding.waiting for holding in some) for some in (full, others)]
            sizes = [sum(holding.waiting_bytes for holding in some) for some in (full, others)]
        return max(
            taken / max(room - by_full, room / 2, 1)
            for (by_full, taken), room in ((counts, ROOM), (sizes, self._room()))
        )

    def _share(self) -> tuple[float, float]:
        """Messages and bytes that a partition may hold while it stops the others."""
        parts = 2 * max(len(self._holdings), 1)
        return ROOM / parts, self._room() / parts

    def _keep(self, found: list[Any]) -> None:
        wrong = any(map(Raw.error, found))
        good = [raw for raw in found if raw.error() is None] if wrong else found
        with self._changed:
            for run in fetched(good):
                holding = self._holdings.get((run.channel, run.partition))
                # What comes of a paused partition is fetched again: it resumes at ``holding.next``.
                if holding is not None and not holding.leaving and not holding.paused:
                    holding.keep(run)
            if wrong:
                for raw in found:
                    self._note(raw)
        self._wake()

    def _note(self, raw: Any) -> None:
        error = raw.error()
        if error is not None and error.code() not in _PASSING:
            self.failure = translated(error, channel=raw.topic(), group=self.group)

    def _fail(self, error: DragomanError) -> None:
        with self._changed:
            self.failure = error
        self._wake()
        time.sleep(_TICK)

    def _tend(self) -> None:
        """After each round: pause what has to wait, start again what has waited."""
        now = time.monotonic()
        with self._changed:
            for place, holding in self._holdings.items():
                if not holding.full:
                    holding.room_at = None
                stop = holding.full or holding.waits_until > now
                if stop:
                    self._pause(place, holding)
                elif holding.paused:
                    self.consumer.resume([TopicPartition(*place)])
                    # Where a pause goes on is the consumer's idea, and not always ours.
                    with faults(channel=place[0], partition=place[1]):
                        self.consumer.seek(TopicPartition(*place, holding.next))
                    holding.paused = False
                    self._wake()
        if self._ownership is not None:
            self._take_over(self._ownership.new_places(self._holdings))

    def _pause(self, place: Place, holding: Holding) -> None:
        if not holding.paused:
            self.consumer.pause([TopicPartition(*place)])
            holding.paused = True

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        self._was_assigned = True
        if self._ownership is None:
            self._take_over([(one.topic, one.partition) for one in partitions])
        else:
            consumer.incremental_assign(partitions)
            if partitions:
                self._ownership.begin()

    def _take_over(self, places: Sequence[Place]) -> None:
        """Go on where the group is; one that is nowhere yet starts where it was told to, and that is kept."""
        if not places:
            return
        stored = self._stored(places)
        new = [place for place in places if place not in stored]
        positions = {place: stored.get(place, self._starts.get(place, 0)) for place in places}
        with self._changed:
            if self.closed:
                return
            for place, offset in positions.items():
                self._holdings[place] = Holding.starting(offset)
        assigned = [TopicPartition(*place, positions[place]) for place in places]
        self.consumer.incremental_assign(assigned)
        # The driver remembers a pause, also of a partition that was away meanwhile.
        self.consumer.resume(assigned)
        if new:
            self.consumer.commit(offsets=[position(place, positions[place], self._durable) for place in new])

    def _stored(self, places: Sequence[Place]) -> dict[Place, int]:
        asked = [TopicPartition(*place) for place in places]
        while not self.closed:
            try:
                return dict(stored_offsets(self.consumer.committed(asked, timeout=TIMEOUT)).items())
            except KafkaException as error:
                failure = translated(error.args[0], group=self.group)
                if error.args[0].code() == KafkaError._TIMED_OUT:
                    failure.next = _HELD_BACK
                self._fail(failure)
        return {}

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        """Wait a little for what is in flight, then let go."""
        places = self._concerned(partitions)
        with self._changed:
            for holding in (self._holdings[place] for place in places):
                holding.leaving = True
                holding.queue.clear()
            self.leaving = places
        if not self._errands.run_until(lambda: self.closed or not self._busy(places), self._handover):
            log.warning(
                "Partitions move although messages of them are in flight, which are delivered again. "
                "Set a longer handover in the broker's URL if handlers need more time.",
                extra={"group": self.group, "partitions": len(places), "handover": self._handover},
            )
        self._let_go(consumer, partitions, places)

    def _lost(self, consumer: Any, partitions: list[Any]) -> None:
        self._let_go(consumer, partitions, self._concerned(partitions))

    def _concerned(self, partitions: list[Any]) -> list[Place]:
        if self._ownership is not None:
            self._ownership.end()
            return list(self._holdings)
        return [place for one in partitions if (place := (one.topic, one.partition)) in self._holdings]

    def _busy(self, places: list[Place]) -> bool:
        with self._changed:
            holdings = self._holdings
            return any(holdings[place].busy for place in places if place in holdings)

    def _let_go(self, consumer: Any, partitions: list[Any], places: list[Place]) -> None:
        with self._changed:
            for place in places:
                self._holdings.pop(place, None)
            self.leaving = ()
        extra = [TopicPartition(*place) for place in places] if self._ownership is not None else []
        consumer.incremental_unassign([*partitions, *extra])


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
