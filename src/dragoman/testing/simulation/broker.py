"""A broker double: it keeps the promises of ``core/broker.py``, and breaks down where a scenario wants it.

``Server`` is the broker itself, which never fails. ``Connection`` is the way one member has to it, with all
that a network does. ``Server.history`` is what happened, in the order in which the broker saw it.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dragoman.core.broker import (
    Acknowledgement,
    Capabilities,
    Lag,
    LogReader,
    Ordering,
    Receiver,
    Sharing,
    Subscription,
    check_subscription,
    revoked,
)
from dragoman.core.channel import Channel
from dragoman.core.errors import BrokerUnavailable, ChannelNotFound, Unsupported
from dragoman.core.message import Message, Position
from dragoman.core.partitioning import Partitioner, check_company
from dragoman.testing.simulation.loop import SimulatedLoop
from dragoman.testing.simulation.network import Link, Network

LEASE_S = 10.0
"""After so long without a call a member is out."""
HANDOVER_S = 8.0
"""So long a partition that is to move stays with a member that has messages of it in flight."""

Place = tuple[str, int]


class Accepted(NamedTuple):
    at: float
    message: Message


class Delivered(NamedTuple):
    at: float
    message: Message
    group: str
    member: str
    epoch: int


class Settled(NamedTuple):
    """Acknowledged, by itself or by one behind it."""

    at: float
    place: Place
    offset: int
    group: str
    member: str
    epoch: int


class Returned(NamedTuple):
    """Released by its member."""

    at: float
    place: Place
    offset: int
    group: str
    member: str
    epoch: int
    delay: float


class Moved(NamedTuple):
    """A partition has a new owner, or none."""

    at: float
    place: Place
    group: str
    member: str | None
    epoch: int
    former: str | None
    abandoned: frozenset[int]
    """What the former owner had in flight."""
    is_left: bool
    """The former owner has closed its receiver."""


Event = Accepted | Delivered | Settled | Returned | Moved


def told(event: Event) -> str:
    """The event in words."""
    match event:
        case Accepted(message=message):
            return f"{spot_of(message)} accepted"
        case Delivered(message=message, member=member, epoch=epoch):
            return f"{spot_of(message)} delivered to {member}, attempt {message.attempt}, epoch {epoch}"
        case Settled(place=(channel, partition), offset=offset, member=member, epoch=epoch):
            return f"{channel}-{partition}@{offset} acknowledged by {member}, epoch {epoch}"
        case Returned(place=(channel, partition), offset=offset, member=member, delay=delay):
            return f"{channel}-{partition}@{offset} released by {member} for {delay:.1f} s"
        case Moved(place=(channel, partition), member=member, epoch=epoch, former=former, abandoned=left):
            unfinished = f", in flight: {sorted(left)}" if left else ""
            return f"{channel}-{partition} moved from {former} to {member}, epoch {epoch}{unfinished}"


def spot_of(message: Message) -> str:
    return f"{message.channel}-{message.partition}@{message.offset}"


@dataclass(eq=False)
class Share:
    """How far a group is in one partition. Offsets are settled, in flight, set aside, or wait."""

    place: Place
    log: list[Message]
    epoch: int = 0
    owner: SimulatedReceiver | None = None
    leave_by: float | None = None
    settled: set[int] = field(default_factory=set)
    flying: dict[int, int] = field(default_factory=dict)
    """With the number of each delivery."""
    aside: dict[int, float] = field(default_factory=dict)
    """When each is due."""
    tried: dict[int, int] = field(default_factory=dict)
    low: int = 0
    """All before it are settled."""

    def waiting(self, now: float) -> list[int]:
        while self.low in self.settled:
            self.low += 1
        return [
            offset
            for offset in range(self.low, len(self.log))
            if offset not in self.settled and offset not in self.flying and self.aside.get(offset, 0.0) <= now
        ]

    @property
    def behind(self) -> int:
        return len(self.log) - len(self.settled)

    def abandon(self) -> None:
        """What is in flight waits again, and counts as tried."""
        for offset in self.flying:
            self.tried[offset] = self.tried.get(offset, 0) + 1
        self.flying.clear()


@dataclass(eq=False)
class Group:
    name: str
    shares: dict[Place, Share] = field(default_factory=dict)
    members: list[SimulatedReceiver] = field(default_factory=list)
    epochs: int = 0


@dataclass(frozen=True, slots=True)
class Kind:
    """What the broker is able to do."""

    acknowledgement: Acknowledgement = Acknowledgement.CUMULATIVE
    holding: bool = True
    """Its receivers can leave out partitions."""
    leaving: bool = True
    """Its receivers know beforehand which partitions move."""


class Server:
    """``listen`` is told of each event at once."""

    def __init__(
        self,
        loop: SimulatedLoop,
        network: Network,
        kind: Kind | None = None,
        listen: Callable[[Event], None] | None = None,
    ) -> None:
        self.kind = kind or Kind()
        self.loop = loop
        self.network = network
        self.history: list[Event] = []
        self.channels: dict[str, list[list[Message]]] = {}
        self.groups: dict[str, Group] = {}
        self._listen = listen
        self._partitioners: dict[str, Partitioner] = {}
        self._deliveries = 0
        # Timers of the server outlive the members in whose calls they are set.
        self._context = contextvars.copy_context()

    def note(self, event: Event) -> None:
        self.history.append(event)
        if self._listen is not None:
            self._listen(event)

    # Channels

    def create(self, channel: str, partitions: int) -> bool:
        if channel in self.channels:
            return False
        self.channels[channel] = [[] for _ in range(partitions)]
        return True

    def topic(self, channel: str) -> list[list[Message]]:
        try:
            return self.channels[channel]
        except KeyError:
            raise ChannelNotFound("There is no such channel.", channel=channel) from None

    def append(self, messages: Sequence[Message]) -> list[Position]:
        """Accept messages."""
        positions = []
        for message in messages:
            logs = self.topic(message.channel)
            choose = self._partitioners.setdefault(message.channel, Partitioner(message.channel)).choose
            partition = choose(message, len(logs))
            log = logs[partition]
            kept = message._replace(
                partition=partition,
                offset=len(log),
                timestamp=message.timestamp or int(self.loop.wall_time() * 1000),
            )
            log.append(kept)
            positions.append(Position(message.channel, partition, len(log) - 1))
            self.note(Accepted(self.loop.time(), kept))
        self.wake()
        return positions

    def append_later(self, messages: Sequence[Message], delay: float) -> None:
        self.loop.call_later(delay, self.append, messages, context=self._context)

    # Groups

    def join(self, receiver: SimulatedReceiver) -> None:
        subscription = receiver.subscription
        group = self.groups.setdefault(subscription.group, Group(subscription.group))
        check_company(
            subscription, [(each.subscription.sharing, each.subscription.channels) for each in group.members]
        )
        for channel in subscription.channels:
            for partition, log in enumerate(self.topic(channel)):
                group.shares.setdefault((channel, partition), Share((channel, partition), log))
        group.members.append(receiver)
        receiver.group = group
        receiver.seen_at = self.loop.time()
        self._expect(receiver)
        self.balance(group)

    def _expect(self, receiver: SimulatedReceiver) -> None:
        self.loop.call_at(receiver.seen_at + LEASE_S, self._look_for, receiver, context=self._context)

    def _look_for(self, receiver: SimulatedReceiver) -> None:
        if receiver in receiver.group.members:
            if self.loop.time() >= receiver.seen_at + LEASE_S:
                self.leave(receiver, is_closed=False)
            else:
                self._expect(receiver)

    def leave(self, receiver: SimulatedReceiver, is_closed: bool = True) -> None:
        group = receiver.group
        if receiver in group.members:
            group.members.remove(receiver)
            for share in group.shares.values():
                if share.owner is receiver:
                    self._give(group, share, None, is_closed)
            self.balance(group)

    def balance(self, group: Group) -> None:
        """Give each member its fair part of each channel, and take no more than that needs."""
        for channel in sorted({channel for channel, _ in group.shares}):
            shares = [share for (name, _), share in sorted(group.shares.items()) if name == channel]
            members = [one for one in group.members if channel in one.subscription.channels]
            if not members:
                continue
            each, more = divmod(len(shares), len(members))
            wanted = {member: each + (rank < more) for rank, member in enumerate(members)}
            for share in shares:
                if share.owner is not None:
                    wanted[share.owner] -= 1
                    share.leave_by = share.leave_by if wanted[share.owner] < 0 else None
            for share in shares:
                if share.owner is not None and wanted[share.owner] < 0 and share.leave_by is None:
                    wanted[share.owner] += 1
                    share.leave_by = self.loop.time() + (HANDOVER_S if self.kind.leaving else 0.0)
                    self.loop.call_at(share.leave_by, self._hand_over, group, share, context=self._context)
                elif share.leave_by is not None and share.owner is not None:
                    wanted[share.owner] += 1
            for share in shares:
                if share.owner is None:
                    free = next((member for member in members if wanted[member] > 0), None)
                    if free is not None:
                        wanted[free] -= 1
                        self._give(group, share, free)
        self._hand_over_idle(group)
        self.wake()

    def _hand_over(self, group: Group, share: Share) -> None:
        if share.owner is not None and share.leave_by is not None and self.loop.time() >= share.leave_by:
            self._give(group, share, None)
            self.balance(group)

    def _hand_over_idle(self, group: Group) -> None:
        idle = [
            each
            for each in group.shares.values()
            if each.leave_by is not None and not each.flying and each.owner
        ]
        for share in idle:
            self._give(group, share, None)
        if idle:
            self.balance(group)

    def _give(
        self, group: Group, share: Share, receiver: SimulatedReceiver | None, is_left: bool = False
    ) -> None:
        former, abandoned = share.owner, frozenset(share.flying)
        share.abandon()
        share.leave_by = None
        group.epochs += 1
        share.epoch, share.owner = group.epochs, receiver
        self.note(
            Moved(
                self.loop.time(),
                share.place,
                group.name,
                None if receiver is None else receiver.member,
                share.epoch,
                None if former is None else former.member,
                abandoned,
                is_left,
            )
        )

    def move(self, place: Place) -> None:
        """Take a partition from its owner in each group, as if it had been silent for too long."""
        for group in self.groups.values():
            share = group.shares.get(place)
            if share is not None and share.owner is not None:
                others = [one for one in group.members if one is not share.owner]
                self._give(group, share, self.network.random.choice(others) if others else share.owner)
                self.balance(group)

    # What members do

    def take(self, receiver: SimulatedReceiver, share: Share, limit: int) -> list[tuple[Message, int]]:
        taken = []
        for offset in share.waiting(self.loop.time())[:limit]:
            self._deliveries += 1
            share.flying[offset] = self._deliveries
            share.aside.pop(offset, None)
            message = share.log[offset]._replace(attempt=1 + share.tried.get(offset, 0))
            taken.append((message, self._deliveries))
            self.note(Delivered(self.loop.time(), message, receiver.group.name, receiver.member, share.epoch))
        return taken

    def settle(self, receiver: SimulatedReceiver, share: Share, offset: int) -> None:
        """The message, and with cumulative acknowledgement all that were given out before it."""
        ends = [offset]
        if self.kind.acknowledgement is Acknowledgement.CUMULATIVE:
            ends = sorted(one for one in share.flying if one <= offset and receiver.has_given(share, one))
        for one in ends:
            del share.flying[one]
            share.settled.add(one)
            self.note(
                Settled(self.loop.time(), share.place, one, receiver.group.name, receiver.member, share.epoch)
            )
        if share.leave_by is not None:
            self._hand_over_idle(receiver.group)

    def give_back(self, receiver: SimulatedReceiver, share: Share, offset: int, delay: float) -> None:
        cumulative = self.kind.acknowledgement is Acknowledgement.CUMULATIVE
        for one in [one for one in share.flying if one == offset or (cumulative and one > offset)]:
            del share.flying[one]
        share.tried[offset] = share.tried.get(offset, 0) + 1
        if delay:
            share.aside[offset] = self.loop.time() + delay
        now, group = self.loop.time(), receiver.group.name
        self.note(Returned(now, share.place, offset, group, receiver.member, share.epoch, delay))
        if share.leave_by is not None:
            self._hand_over_idle(receiver.group)
        self.wake()

    def wake(self) -> None:
        """Those who wait for messages look again."""
        for group in self.groups.values():
            for receiver in group.members:
                receiver.wake()

    def next_due(self, receiver: SimulatedReceiver) -> float | None:
        dues = [due for share in receiver.group.shares.values() for due in share.aside.values()]
        return min((due for due in dues if due > self.loop.time()), default=None)


class Connection:
    """Implements ``dragoman.core.broker.Broker`` for one member.

    ``link`` decides what becomes of calls of ``receive``, ``acknowledge``, ``release``, ``extend``,
    ``publish``, ``subscribe`` and ``close``.
    """

    def __init__(self, server: Server, member: str) -> None:
        self.url = "simulated://"
        self.server = server
        self.member = member
        self.link = Link(server.network)
        self._receivers: list[SimulatedReceiver] = []
        self.capabilities = Capabilities(
            durable=True,
            groups=True,
            ordering=Ordering.PARTITION,
            acknowledgement=server.kind.acknowledgement,
            replay=False,
            new_groups_see_history=True,
            headers=True,
            keys=True,
            delayed_delivery=True,
            delivery_count=True,
            lag=True,
            sharing=frozenset({Sharing.SHARED}),
        )

    @property
    def is_closed(self) -> bool:
        """Whether all receivers were closed."""
        return all(receiver.closed for receiver in self._receivers)

    async def connect(self) -> None:
        """Nothing has to be opened."""

    async def close(self) -> None:
        for receiver in self._receivers:
            await receiver.close()

    async def publish(self, messages: Sequence[Message], delay: float = 0.0) -> Sequence[Position | None]:
        if delay <= 0:
            return await self.link.call("publish", lambda: self.server.append(messages))
        await self.link.call("publish", lambda: self.server.append_later(messages, delay))
        return [None] * len(messages)

    async def subscribe(self, subscription: Subscription) -> Receiver:
        check_subscription(subscription, self.capabilities, "simulated")
        receiver = SimulatedReceiver(self, replace(subscription, options={}))
        await self.link.call("subscribe", lambda: self.server.join(receiver))
        self._receivers.append(receiver)
        kind = self.server.kind
        if kind.holding and kind.leaving:
            return HoldingLeaving(receiver)
        if kind.holding:
            return Holding(receiver)
        return Leaving(receiver) if kind.leaving else Plain(receiver)

    async def create(self, channel: Channel) -> bool:
        return await self.link.call("create", lambda: self.server.create(channel.name, channel.partitions))

    async def describe(self, channel: str) -> Channel:
        return await self.link.call("describe", lambda: Channel(channel, len(self.server.topic(channel))))

    async def alter(self, channel: Channel) -> None:
        logs = self.server.topic(channel.name)
        logs.extend([] for _ in range(channel.partitions - len(logs)))

    async def delete(self, channel: str) -> None:
        self.server.topic(channel)
        del self.server.channels[channel]

    async def channels(self) -> Sequence[str]:
        return await self.link.call("channels", lambda: sorted(self.server.channels))

    async def lag(self, channel: str, group: str | None = None) -> Sequence[Lag]:
        self.server.topic(channel)
        return [
            Lag(each.name, channel, partition, len(share.log) - share.behind, len(share.log))
            for each in self.server.groups.values()
            for (name, partition), share in sorted(each.shares.items())
            if name == channel and group in (None, each.name)
        ]

    def log(self) -> LogReader:
        raise Unsupported("The simulated broker has no history to read.")


class SimulatedReceiver:
    """One member of one group. What it believes to own may lag behind what the server knows."""

    def __init__(self, connection: Connection, subscription: Subscription) -> None:
        self.subscription = subscription
        self.member = connection.member
        self.closed = False
        self.group = Group("")
        self.seen_at = 0.0
        self.held_out: Collection[tuple[str, int | None]] = ()
        self._connection = connection
        self._server = connection.server
        self._epochs: dict[Place, int] = {}
        self._mine: dict[Place, dict[int, int]] = {}
        """What was delivered here and is not given back, with the number of each delivery."""
        self._ready: list[tuple[Message, int]] = []
        """Taken, and not given out: the caller was cancelled, or the answer was lost."""
        self._waiter: asyncio.Future[None] | None = None
        self._turn = 0

    # What the server knows

    def _sync(self) -> None:
        """Learn what became of our partitions. Only calls that reach the server do so."""
        if self not in self.group.members:
            self._mine.clear()
            self._epochs.clear()
            self._ready.clear()
            raise BrokerUnavailable("The member was silent for too long.", next="Subscribe again.")
        self.seen_at = self._server.loop.time()
        for place, share in self.group.shares.items():
            if share.owner is not self:
                self._epochs.pop(place, None)
                self._mine.pop(place, None)
            elif self._epochs.get(place) != share.epoch:
                self._epochs[place] = share.epoch
                self._mine[place] = {}

    def has_given(self, share: Share, offset: int) -> bool:
        """Whether the caller has this message. One that it never saw is not acknowledged with others."""
        return all(number != share.flying[offset] for _, number in self._ready)

    def _share(self, message: Message) -> Share | None:
        """Where the message is in flight with us, or settled."""
        offset, place = message.offset, (message.channel, message.partition or 0)
        share = self.group.shares.get(place)
        if share is None or offset is None or share.owner is not self:
            return None
        number = self._mine.get(place, {}).get(offset)
        current = number is not None and share.flying.get(offset) == number
        return share if current or offset in share.settled else None

    # The port

    async def receive(self, limit: int, timeout: float) -> Sequence[Message]:
        loop = self._server.loop
        deadline = loop.time() + timeout
        while True:
            self._require_open()
            await self._connection.link.call("receive", lambda: self._take(limit))
            self._ready = [
                (message, number)
                for message, number in self._ready
                if self._mine.get((message.channel, message.partition or 0), {}).get(message.offset or 0)
                == number
            ]
            given, self._ready = self._ready[:limit], self._ready[limit:]
            if given or loop.time() >= deadline:
                return [message for message, _ in given]
            await self._wait(deadline)

    def _take(self, limit: int) -> None:
        self._sync()
        shares = [
            share
            for share in self.group.shares.values()
            if share.owner is self and share.leave_by is None and share.place not in self.held_out
        ]
        self._turn += 1
        room = limit - len(self._ready)
        for at in range(len(shares)):
            share = shares[(at + self._turn) % len(shares)]
            for message, number in self._server.take(self, share, max(0, room)):
                self._mine.setdefault(share.place, {})[message.offset or 0] = number
                self._ready.append((message, number))
                room -= 1

    async def _wait(self, deadline: float) -> None:
        due = self._server.next_due(self)
        until = deadline if due is None else min(deadline, due)
        self._waiter = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._waiter,), timeout=max(0.0, until - self._server.loop.time()))
        self._waiter = None

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        def effect() -> Message | None:
            self._sync()
            late = None
            for message in messages:
                share = self._share(message)
                if share is None:
                    late = message
                elif message.offset in share.flying:
                    self._server.settle(self, share, message.offset or 0)
            return late

        self._require_open()
        late = await self._connection.link.call("acknowledge", effect)
        if late is not None:
            raise revoked(late, self.group.name)

    async def release(self, messages: Sequence[Message], delay: float = 0.0) -> None:
        cumulative = self._server.kind.acknowledgement is Acknowledgement.CUMULATIVE

        def effect() -> Message | None:
            self._sync()
            late = None
            for message in messages:
                share, offset = self._share(message), message.offset or 0
                if share is None:
                    late = message
                elif offset in share.flying:
                    self._server.give_back(self, share, offset, delay)
                    mine = self._mine.get(share.place, {})
                    for one in [one for one in mine if one == offset or (cumulative and one > offset)]:
                        del mine[one]
            return late

        self._require_open()
        late = await self._connection.link.call("release", effect)
        if late is not None:
            raise revoked(late, self.group.name)

    def lost(self, message: Message) -> bool:
        return message.offset not in self._mine.get((message.channel, message.partition or 0), {})

    async def extend(self) -> None:
        self._require_open()
        await self._connection.link.call("extend", self._sync)

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.wake()
            await self._connection.link.call("close", lambda: self._server.leave(self))

    def _require_open(self) -> None:
        if self.closed:
            raise BrokerUnavailable("The receiver is closed.", next="Subscribe again.")

    @property
    def partitions(self) -> int:
        return len(self._epochs)

    @property
    def leaving(self) -> Collection[tuple[str, int | None]]:
        return [
            share.place
            for share in self.group.shares.values()
            if share.owner is self and share.leave_by is not None
        ]


class Plain:
    """A receiver with no more than the port demands."""

    def __init__(self, receiver: SimulatedReceiver) -> None:
        self._receiver = receiver
        self.receive = receiver.receive
        self.acknowledge = receiver.acknowledge
        self.release = receiver.release
        self.lost = receiver.lost
        self.extend = receiver.extend
        self.close = receiver.close


class Holding(Plain):
    @property
    def partitions(self) -> int:
        return self._receiver.partitions

    def hold(self, places: Collection[tuple[str, int | None]]) -> None:
        self._receiver.held_out = set(places)


class Leaving(Plain):
    @property
    def leaving(self) -> Collection[tuple[str, int | None]]:
        return self._receiver.leaving


class HoldingLeaving(Holding, Leaving):
    pass
