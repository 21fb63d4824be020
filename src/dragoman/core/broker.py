"""The broker port: what an adapter translates, and what it promises.

The delivery loop, retries, dead letters and replies live above it, in ``dragoman.client``. An adapter
only turns these calls into its driver's, and its driver's errors into ``dragoman.core.errors``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable

from dragoman.core.channel import Channel
from dragoman.core.errors import Revoked, Unsupported
from dragoman.core.log import LogSlice
from dragoman.core.message import Message, Position


class Ordering(StrEnum):
    PARTITION = "partition"
    """Within a partition (and so per key), also with several members in a group."""
    CHANNEL = "channel"
    """Over the whole channel."""
    NONE = "none"


class Acknowledgement(StrEnum):
    CUMULATIVE = "cumulative"
    """Acknowledging a message acknowledges all before it in its partition. The loop holds back."""
    EACH = "each"
    """Every message is acknowledged by itself, in any order."""


class Sharing(StrEnum):
    """How the members of one group divide the messages."""

    SHARED = "shared"
    """Competing consumers: each message goes to one of them."""
    KEY_SHARED = "key-shared"
    """As shared, but messages of one key go to one member at a time, in order."""
    FAILOVER = "failover"
    """One member gets everything; the others wait and take over when it goes."""
    EXCLUSIVE = "exclusive"
    """One member only: a second one is refused with ``GroupTaken``."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a broker can do. The client makes up for what is missing, or refuses at start-up."""

    durable: bool
    """An accepted message survives a kill of any process, the broker's own included."""
    groups: bool
    """Members of one group share the messages; every group gets them all."""
    ordering: Ordering
    acknowledgement: Acknowledgement
    replay: bool
    """The history can be read again by offset: ``Broker.log`` works."""
    new_groups_see_history: bool
    """A group's first member starts at the earliest message kept, unless told otherwise."""
    headers: bool
    keys: bool
    delayed_delivery: bool
    """``publish(..., delay=)`` and ``release(..., delay=)`` wait in the broker, blocking nobody."""
    delivery_count: bool
    """``Message.attempt`` is counted by the broker and survives a crash of the consumer."""
    transactions: bool = False
    deduplication: bool = False
    start_by_time: bool = False
    lag: bool = False
    sharing: frozenset[Sharing] = frozenset({Sharing.SHARED})
    """The ways a group can share that ``subscribe`` knows."""
    temporary_groups: bool = False
    """``Subscription.durable`` may be false."""
    start_by_offset: bool = False


Start = Literal["earliest", "latest"] | int | Mapping[int, int]
"""Where a group begins: a number is milliseconds since the epoch, a mapping has offsets by partition."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a receiver is opened for.

    ``start`` counts only for a group that has no position yet: ``earliest``, ``latest``, milliseconds
    since the epoch, or offsets by partition (partitions that are not named start at the earliest). A group
    that is not ``durable`` is forgotten, with its position and all the broker kept for it, when its last
    member closes or dies. A group is of one kind: who wants it otherwise is refused while it is there.
    ``options`` are the driver's own.
    """

    channels: tuple[str, ...]
    group: str
    start: Start = "earliest"
    member: str = ""
    sharing: Sharing = Sharing.SHARED
    durable: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)


class Receiver(Protocol):
    """One member of a group. Used from one task of one event loop.

    A message is *in flight* from ``receive`` until it is acknowledged or released. What is in flight when
    the receiver closes, or when its process dies, is delivered again, to this group, to whoever is there.
    """

    async def receive(self, limit: int, timeout: float) -> Sequence[Message]:
        """Wait for at least one message, at most ``timeout`` seconds; give up to ``limit``, else none.

        Within a partition they come in order of offset. Safe to cancel: nothing is lost. Raises
        ``DamagedLog`` if a partition stops at damage and no other has messages; the receiver stays usable.
        """

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        """These are done with, for good. Returns once that is recorded as durably as the broker can.

        With cumulative acknowledgement the caller passes at most the highest finished message of each
        partition whose predecessors are all finished. Raises ``Revoked`` if a message belongs to another
        member by now; it will be, or was, delivered there; the others are acknowledged nonetheless.
        """

    async def release(self, messages: Sequence[Message], delay: float = 0.0) -> None:
        """Give them back unhandled: delivered again, ``attempt`` one higher, not before ``delay`` seconds.

        On a broker with cumulative acknowledgement, later messages of the same partition that are in
        flight are given back too, and come again after it.
        """

    def lost(self, message: Message) -> bool:
        """Whether this message's delivery was revoked: acknowledging it would do nothing."""

    async def extend(self) -> None:
        """Keep what is in flight ours. The loop calls it every few seconds while handlers work."""

    async def close(self) -> None:
        """Leave the group. Waits for nothing; unfinished messages go to the other members at once."""


@runtime_checkable
class HoldingReceiver(Receiver, Protocol):
    """A receiver that can leave out some partitions. Optional.

    Without it, a partition whose handler fails or is slow may use up the window of its client, and the other
    partitions wait for it.
    """

    @property
    def partitions(self) -> int:
        """How many partitions, of all channels together, this member receives from now."""

    def hold(self, places: Collection[tuple[str, int | None]]) -> None:
        """Until the next call, ``receive`` gives no messages of these channels and partitions.

        The loop calls it before each ``receive``, most often with none. Nothing else changes: what is in
        flight stays so, and the other partitions are received from.
        """


@runtime_checkable
class LeavingReceiver(Receiver, Protocol):
    """A receiver that knows beforehand which partitions move to other members. Optional.

    Without it, all that is in flight of such a partition is handled before it moves, or is handled twice.
    """

    @property
    def leaving(self) -> Collection[tuple[str, int | None]]:
        """Channels and partitions that move as soon as nothing of them is in flight, or after a while.

        The loop handles what it has begun of them, and what comes before that, and releases the others.
        """


def check_subscription(subscription: Subscription, capabilities: Capabilities, scheme: str) -> None:
    """What an adapter calls first in ``subscribe``: refuse what its broker cannot do."""
    wanted = {
        f"sharing {subscription.sharing}": subscription.sharing in capabilities.sharing,
        "groups that are not durable": subscription.durable or capabilities.temporary_groups,
        "starting at a time": not isinstance(subscription.start, int) or capabilities.start_by_time,
        "starting at an offset": not isinstance(subscription.start, Mapping) or capabilities.start_by_offset,
    }
    for what, possible in wanted.items():
        if not possible:
            raise Unsupported(
                f"{scheme}:// has no {what}.",
                next="The table of capabilities says which brokers have it.",
                group=subscription.group,
            )


def revoked(message: Message, group: str) -> Revoked:
    """What a receiver raises for a delivery that is another's by now."""
    return Revoked(
        "This delivery is not ours any more.",
        next="It is delivered again, here or to another member of the group.",
        channel=message.channel,
        partition=message.partition,
        offset=message.offset,
        group=group,
    )


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group is behind in one partition: ``end`` is the offset the next message will get."""

    group: str
    channel: str
    partition: int
    committed: int
    end: int

    @property
    def behind(self) -> int:
        return max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Messages of a partition that were accepted and cannot be read: ``first`` and those before ``until``."""

    partition: int
    first: int
    until: int


class LogReader(Protocol):
    """The history of channels by offset, synchronous, for Spark workers and replays.

    Picklable, or cheap to build from the broker's URL; used from one thread; touches no group.
    """

    def partitions(self, channel: str) -> Mapping[int, tuple[int, int]]:
        """Per partition the earliest offset kept and the one after the last. Raises ``ChannelNotFound``."""

    def channels(self) -> Sequence[str]: ...

    def offset_at(self, channel: str, partition: int, timestamp: int) -> int:
        """The first offset whose message has this timestamp (ms) or a later one; the end if there is none."""

    def read(self, channel: str, partition: int, start: int, end: int) -> LogSlice:
        """Messages from ``start`` on, before ``end``: what fits one slice, one at least if any is left.

        Raises ``DamagedLog`` if the message at ``start`` is kept and cannot be read. Reading goes on from its
        ``until``.
        """

    def close(self) -> None: ...


class Broker(Protocol):
    """A connection to one broker. Safe for many tasks of one event loop.

    Built from a URL by ``dragoman.core.loading``: ``load(BROKERS, scheme)(url)``. Unknown options in the URL
    raise ``ConfigurationError`` there and then.
    """

    capabilities: Capabilities
    url: str

    async def connect(self) -> None:
        """Raises ``BrokerUnavailable`` when nobody answers."""

    async def close(self) -> None:
        """Everything accepted by ``publish`` is out before this returns. Closes its receivers."""

    async def publish(self, messages: Sequence[Message], delay: float = 0.0) -> Sequence[Position | None]:
        """Hand over messages, in order; return once they are as safe as the broker can make them.

        All of them are accepted, or an error is raised; after an error some may have been. The positions
        are ``None`` where the broker does not tell. Messages of one key keep their order. A message without
        a partition goes to the one its key hashes to, without a key to any.
        Raises ``ChannelNotFound``, ``BrokerUnavailable``.
        """

    async def subscribe(self, subscription: Subscription) -> Receiver:
        """Join a group.

        Raises ``ChannelNotFound`` if one of the channels does not exist, ``GroupTaken`` if an exclusive
        group has its member, ``ConfigurationError`` if the group is durable and this is not or the other way
        round, ``Unsupported`` for what the capabilities do not name.
        """

    async def create(self, channel: Channel) -> bool:
        """Create a channel; ``False`` if it is there already, whatever its settings."""

    async def describe(self, channel: str) -> Channel:
        """Raises ``ChannelNotFound``."""

    async def alter(self, channel: Channel) -> None:
        """Change settings. Partitions may grow, never shrink."""

    async def delete(self, channel: str) -> None: ...

    async def channels(self) -> Sequence[str]: ...

    async def lag(self, channel: str, group: str | None = None) -> Sequence[Lag]:
        """Raises ``Unsupported`` where the broker does not know."""

    def log(self) -> LogReader:
        """Raises ``Unsupported`` without the capability ``replay``. Needs no ``connect``."""


@runtime_checkable
class SkipsDamage(Protocol):
    """What only a broker that keeps its messages in files of its own has."""

    async def damage(self, channel: str, group: str) -> Sequence[DamagedRange]:
        """The damaged ranges that hold the group back. Raises ``ConfigurationError`` if it reads another."""

    async def skip_damage(self, channel: str, group: str) -> Sequence[DamagedRange]:
        """Move the group past these ranges; what it will not get."""


class Transactional(Protocol):
    """What a broker with the capability ``transactions`` has beside the rest."""

    async def transact(
        self,
        messages: Sequence[Message],
        receiver: Receiver | None = None,
        done: Sequence[Message] = (),
        mark: tuple[str, int] | None = None,
    ) -> Sequence[Position | None]:
        """Publish ``messages`` and acknowledge ``done`` of ``receiver``, all or nothing.

        ``mark`` is a name and a number that are recorded with it: who comes again after a crash asks
        ``marked`` whether this was done. Readers see the messages once the whole is committed.
        """

    async def marked(self, name: str) -> int | None:
        """The number last recorded under this name."""
