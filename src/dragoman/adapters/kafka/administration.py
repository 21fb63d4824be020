"""Topics and groups of a Kafka cluster. Every call blocks: use it from a thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from dragoman.adapters.kafka.faults import faults, translated
from dragoman.core.broker import Lag
from dragoman.core.channel import Channel
from dragoman.core.errors import BrokerUnavailable, ChannelNotFound, ConfigurationError

TIMEOUT = 30.0
INTERNAL = "__dragoman"
"""A topic without messages: who has its partition owns a group, and marks are offsets in it."""
TEMPORARY = "temporary"
"""Written beside each position of a group that is not durable: Kafka itself knows no such groups."""
_FORGOTTEN = "forgotten"
"""Written beside a position that is as good as none: Kafka removes those of all channels, or none."""
_RETENTION = "retention.ms"
_REPLICATION = "replication.factor"
_SHOWN_WITHIN = 5.0
"""Seconds until brokers show a setting that the controller has taken."""

_REFUSED = (KafkaError._AUTHENTICATION, KafkaError._SSL)
_MOMENTARY = (
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._WAIT_COORD,
    KafkaError._NOENT,
)
_HAS_MEMBERS = (
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,
)

Place = tuple[str, int]
R = TypeVar("R")


class Administration:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._complaints: dict[int, KafkaError] = {}
        with faults():
            self._admin = AdminClient({**settings, "error_cb": self._complain})

    def _complain(self, error: KafkaError) -> None:
        self._complaints[error.code()] = error

    def reach(self) -> None:
        """Raises ``BrokerUnavailable``, ``AccessRefused``."""
        self._complaints.clear()
        deadline = time.monotonic() + TIMEOUT / 2
        while True:
            try:
                self._admin.list_topics(timeout=0.5)
                return
            except KafkaException as error:
                # Why it gets no answer is told only to whoever listens.
                self._admin.poll(0)
                refused = next(
                    (self._complaints[code] for code in _REFUSED if code in self._complaints), None
                )
                down = KafkaError._ALL_BROKERS_DOWN in self._complaints
                if refused is not None or down or time.monotonic() > deadline:
                    raise translated(refused or error.args[0]) from error

    def create(self, channel: Channel) -> bool:
        settings = {**channel.settings, _RETENTION: _milliseconds(channel.retention)}
        replication = _whole(settings.pop(_REPLICATION, "-1"), channel.name)
        topic = NewTopic(channel.name, channel.partitions, replication, config=settings)
        try:
            self._admin.create_topics([topic], request_timeout=TIMEOUT)[channel.name].result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                # Who has just made it has not seen it on the brokers either.
                self._until(lambda: bool(self._found(channel.name)), channel.name)
                return False
            with faults(channel=channel.name):
                raise
        self.await_leaders(channel.name, range(channel.partitions), TIMEOUT)
        return True

    def await_leaders(self, channel: str, partitions: Collection[int], patience: float) -> None:
        """Until the leaders of these do their work, which they are named for a moment earlier.

        If one refuses a producer's first batch, and takes its second, which is on its way already, the first
        is lost.
        """
        self._until(lambda: self._serves(channel, partitions, patience / 3), channel, patience)

    def _serves(self, channel: str, partitions: Collection[int], timeout: float) -> bool:
        wanted = {(channel, partition): OffsetSpec.earliest() for partition in partitions}
        try:
            known = self._found(channel, timeout)
            with faults(channel=channel):
                return set(partitions) <= set(known) and bool(self._ask_offsets(wanted, timeout))
        except (ChannelNotFound, BrokerUnavailable):
            return False

    def ensure_internal(self) -> None:
        if not self._found(INTERNAL):
            self.create(Channel(INTERNAL, 1))

    def partitions(self, channel: str) -> list[int]:
        found = self._found(channel)
        if not found:
            raise missing(channel)
        return found

    def _found(self, channel: str, timeout: float = TIMEOUT) -> list[int]:
        with faults(channel=channel):
            topics = self._admin.list_topics(channel, timeout=timeout).topics
        found = topics.get(channel)
        return [] if found is None or found.error is not None else sorted(found.partitions)

    def _until(self, condition: Callable[[], bool], channel: str, patience: float = TIMEOUT) -> None:
        """What the controller has decided reaches the brokers a moment later."""
        deadline = time.monotonic() + patience
        while not condition():
            if time.monotonic() > deadline:
                raise BrokerUnavailable("The change of the topic does not take effect.", channel=channel)
            time.sleep(0.01)

    def describe(self, channel: str) -> Channel:
        partitions = len(self.partitions(channel))
        settings = self._configured(channel)
        kept = float(settings.pop(_RETENTION))
        return Channel(channel, partitions, None if kept < 0 else kept / 1000, settings)

    def _configured(self, channel: str) -> dict[str, str]:
        """The topic's own, and its retention whosever it is."""
        resource = ConfigResource(ResourceType.TOPIC, channel)
        with faults(channel=channel):
            entries = self._admin.describe_configs([resource], request_timeout=TIMEOUT)[resource].result()
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {
            name: entry.value for name, entry in entries.items() if entry.source == own or name == _RETENTION
        }

    def alter(self, channel: Channel) -> None:
        before = len(self.partitions(channel.name))
        if channel.partitions < before:
            raise ConfigurationError(
                f"{before} partitions cannot become {channel.partitions}.",
                next="Partitions may grow, never shrink.",
                channel=channel.name,
            )
        with faults(channel=channel.name):
            if channel.partitions > before:
                grown = [NewPartitions(channel.name, channel.partitions)]
                self._admin.create_partitions(grown, request_timeout=TIMEOUT)[channel.name].result()
                self.await_leaders(channel.name, range(before, channel.partitions), TIMEOUT)
            resource = _changed(channel)
            self._admin.incremental_alter_configs([resource], request_timeout=TIMEOUT)[resource].result()
        wanted = {entry.name: entry.value for entry in resource.incremental_configs}
        # Not longer: Kafka may write a value in another way than it was given.
        deadline = time.monotonic() + _SHOWN_WITHIN
        while not wanted.items() <= self._configured(channel.name).items() and time.monotonic() < deadline:
            time.sleep(0.01)

    def delete(self, channel: str) -> None:
        with faults(channel=channel):
            self._admin.delete_topics([channel], request_timeout=TIMEOUT)[channel].result()
        self._until(lambda: not self._found(channel), channel)

    def channels(self) -> list[str]:
        with faults():
            topics = self._admin.list_topics(timeout=TIMEOUT).topics
        return sorted(name for name in topics if not name.startswith("__"))

    def earliest(self, places: Iterable[Place]) -> dict[Place, int]:
        return self._offsets(dict.fromkeys(places, OffsetSpec.earliest()))

    def ends(self, places: Iterable[Place]) -> dict[Place, int]:
        """Where readers of committed messages stop: open transactions come later."""
        return self._offsets(dict.fromkeys(places, OffsetSpec.latest()))

    def at_time(self, places: Iterable[Place], timestamp: int) -> dict[Place, int]:
        """The first offset of that time or later; the end where there is none."""
        spec = OffsetSpec.for_timestamp(timestamp)
        found = self._offsets(dict.fromkeys(places, spec))
        after_all = self.ends(place for place, offset in found.items() if offset < 0)
        return {**found, **after_all}

    def _offsets(self, wanted: dict[Place, Any]) -> dict[Place, int]:
        if not wanted:
            return {}

        def ask() -> dict[Place, int]:
            for channel in {channel for channel, _ in wanted}:
                # After a restart of the server the driver has forgotten where they are, and does not ask.
                self.partitions(channel)
            return self._ask_offsets(wanted, TIMEOUT)

        with faults():
            return patiently(ask)

    def _ask_offsets(self, wanted: Mapping[Place, Any], timeout: float) -> dict[Place, int]:
        asked = {TopicPartition(*place): spec for place, spec in wanted.items()}
        committed = IsolationLevel.READ_COMMITTED
        answers = self._admin.list_offsets(asked, isolation_level=committed, request_timeout=timeout)
        found = {(one.topic, one.partition): answer.result().offset for one, answer in answers.items()}
        if OFFSET_INVALID in found.values():
            # What a leader that does not answer is asked about has no offset, and no error either.
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return found

    def lag(self, channel: str, group: str | None) -> Sequence[Lag]:
        places = [(channel, partition) for partition in self.partitions(channel)]
        ends = self.ends(places)
        found: list[Lag] = []
        for name in [group] if group is not None else self._groups():
            stored = self.committed(name, places)
            if group is not None and len(stored) < len(places):
                # A group without a position starts at the earliest message.
                stored = self.earliest(place for place in places if place not in stored) | stored
            found += [Lag(name, *place, stored[place], ends[place]) for place in places if place in stored]
        return found

    def _groups(self) -> list[str]:
        with faults():
            listed = self._admin.list_consumer_groups(request_timeout=TIMEOUT).result()
        return sorted(found.group_id for found in listed.valid)

    def committed(self, group: str, places: Sequence[Place]) -> dict[Place, int]:
        """Asked by a consumer that joins no group.

        ``AdminClient.list_consumer_group_offsets`` brings the whole process down when the group's coordinator
        is not known or has moved: librdkafka then looks for it in a part that only consumers have.
        """
        asked = [TopicPartition(*place) for place in places]
        with faults(group=group):
            consumer = Consumer(onlooker_settings(self._settings, group))
            try:
                return patiently(lambda: stored_offsets(consumer.committed(asked, timeout=TIMEOUT)))
            finally:
                consumer.close()

    def durability(self, group: str, channels: Sequence[str]) -> bool | None:
        """Whether a group is durable, by its positions in these channels; ``None`` while it has none."""
        with faults(group=group):
            return _durable(self._positions(group, channels))

    def _positions(self, group: str, channels: Sequence[str] | None = None) -> list[Any]:
        """In these channels, or in all, with what is written beside them.

        Of a transaction that is open, which may be that of a dead member, nothing counts and nothing is
        waited for.
        """
        topics = self._admin.list_topics(timeout=TIMEOUT).topics
        asked = [
            TopicPartition(name, partition)
            for name, topic in topics.items()
            if channels is None or name in channels
            for partition in topic.partitions
        ]
        if not asked:
            return []
        settings = onlooker_settings(self._settings, group) | {"isolation.level": "read_uncommitted"}
        consumer = Consumer(settings)
        try:
            return patiently(lambda: stored_positions(consumer.committed(asked, timeout=TIMEOUT)))
        finally:
            consumer.close()

    def begin(self, group: str, starts: dict[Place, int], durable: bool = True) -> dict[Place, int]:
        """Write down where a group begins, so that whoever joins begins there, however much later.

        A group that has a place or members has begun: the server refuses it to whoever is not one of them.
        """
        places = [TopicPartition(*place) for place in starts]

        def new(consumer: Any) -> list[Any]:
            stored = patiently(lambda: stored_offsets(consumer.committed(places, timeout=TIMEOUT)))
            return [position(place, at, durable) for place, at in starts.items() if place not in stored]

        with faults(group=group):
            self._commit(group, new)
        return starts

    def owner(self, group: str) -> str | None:
        """The id of the member that has the internal topic, once the group has settled that."""
        with faults(group=group):
            answer = self._admin.describe_consumer_groups([group], request_timeout=TIMEOUT)[group]
            try:
                found = answer.result()
            except KafkaException as error:
                if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                    return None
                raise
        if found.state is not ConsumerGroupState.STABLE:
            return None
        for member in found.members:
            if any(place.topic == INTERNAL for place in member.assignment.topic_partitions):
                return str(member.member_id)
        return None

    def forget_empty(self, group: str) -> None:
        """Remove a temporary group, unless it has members. Where one of its name is durable, that stays."""
        with faults(group=group):
            found = self._positions(group)
            if _durable(found):
                passing = [_forgotten(each) for each in found if each.metadata == TEMPORARY]
                self._commit(group, lambda _: passing)
                return
        answer = self._admin.delete_consumer_groups([group], request_timeout=TIMEOUT)[group]
        try:
            answer.result()
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError.NON_EMPTY_GROUP, KafkaError.GROUP_ID_NOT_FOUND):
                with faults(group=group):
                    raise

    def _commit(self, group: str, wanted: Callable[[Any], list[Any]]) -> None:
        """For a group without members: the server refuses it to whoever is not one of them."""
        consumer = Consumer(onlooker_settings(self._settings, group))
        try:
            positions = wanted(consumer)
            if positions:
                consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in _HAS_MEMBERS:
                raise
        finally:
            consumer.close()


def onlooker_settings(settings: Mapping[str, Any], group: str) -> dict[str, Any]:
    """For a consumer that only asks where a group is. Offsets of open transactions are waited for."""
    return {**settings, "group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"}


def position(place: tuple[str, int | None], offset: int, durable: bool) -> Any:
    """What a group commits."""
    return TopicPartition(*place, offset) if durable else TopicPartition(*place, offset, TEMPORARY)


def stored_offsets(found: Iterable[Any]) -> dict[Place, int]:
    """Where a group is. An offset that cannot be told is not the same as none."""
    return {(one.topic, one.partition): one.offset for one in stored_positions(found)}


def stored_positions(found: Iterable[Any]) -> list[Any]:
    answers = list(found)
    for one in answers:
        if one.error is not None:
            raise KafkaException(one.error)
    return [one for one in answers if one.offset >= 0 and one.metadata != _FORGOTTEN]


def _forgotten(position: Any) -> Any:
    return TopicPartition(position.topic, position.partition, position.offset, _FORGOTTEN)


def _durable(positions: Sequence[Any]) -> bool | None:
    return any(each.metadata != TEMPORARY for each in positions) if positions else None


def patiently(call: Callable[[], R]) -> R:
    """What is so for a moment only: a new partition has no leader, a transaction is being committed."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            return call()
        except KafkaException as error:
            if error.args[0].code() not in _MOMENTARY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def missing(channel: str) -> ChannelNotFound:
    return ChannelNotFound(
        "There is no such topic.", channel=channel, next=f"Create it first: dragoman channel create {channel}"
    )


def _milliseconds(retention: float | None) -> str:
    return "-1" if retention is None else str(max(1, int(retention * 1000)))


def _whole(text: str, channel: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(
            f"{_REPLICATION} cannot be {text!r}.",
            next="Use a whole number, or leave it out.",
            channel=channel,
        ) from None


def _changed(channel: Channel) -> Any:
    settings = {**channel.settings, _RETENTION: _milliseconds(channel.retention)}
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
        if name != _REPLICATION
    ]
    return ConfigResource(ResourceType.TOPIC, channel.name, incremental_configs=entries)
