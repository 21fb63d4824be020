"""Messages to Kafka: an idempotent producer with all acknowledgements, its reports brought into the loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, repeat, starmap
from operator import length_hint
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from dragoman.adapters.kafka.administration import TIMEOUT, Administration, missing
from dragoman.adapters.kafka.faults import faults, translated, unconfirmed
from dragoman.adapters.kafka.reading import Positions
from dragoman.adapters.kafka.reporting import Reporting
from dragoman.core.errors import (
    BrokerError,
    BrokerUnavailable,
    ChannelNotFound,
    ConfigurationError,
    DragomanError,
)
from dragoman.core.message import Message, Position
from dragoman.core.run import Alike

_FULL_PAUSE = 0.005
_ANY = -1
"""The partition that the driver chooses."""
_GETTING_READY = 3.0
"""Seconds in which leaders take up their work. Those that cannot be reached may come later than that."""
_KEPT = 16
_LONGEST = 10_000
"""So many batches of at most this length are kept to be used again."""
_GONE = (KafkaError._DESTROY, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_DEFAULTS = {
    "linger.ms": 2,
    "compression.type": "lz4",
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 500_000,
    "topic.metadata.refresh.interval.ms": 60_000,
    # Topics are known to be there before they are written to: one that is gone later was deleted.
    "topic.metadata.propagation.max.ms": 1_000,
}


def producer_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Whatever is chosen: nothing accepted is lost, nothing is written twice by a repetition."""
    return {**_DEFAULTS, **settings, "enable.idempotence": True, "acks": "all"}


class Batch:
    """Waits for the reports of all its messages, whichever thread brings them.

    ``callbacks`` takes them, one for each message. They are used again for the next batch: to make one for
    each message would take as long as to encode it.
    """

    __slots__ = ("_came", "_loop", "_offsets", "_partitions", "callbacks", "done", "error")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.callbacks: list[Callable[..., None]] = []

    def begin(self, size: int) -> None:
        # Two threads may bring reports at once: counting must be one step.
        self._came = count(1)
        self._partitions = [0] * size
        self._offsets: list[Any] = [0] * size
        self.error: KafkaError | None = None
        self.done: asyncio.Future[None] = self._loop.create_future()
        self.callbacks += [partial(self._report, index) for index in range(len(self.callbacks), size)]

    def _report(self, index: int, error: KafkaError | None, message: Any) -> None:
        # Whoever counts the last one begins the next use: nothing of the batch is read after that.
        came, size, done = self._came, len(self._offsets), self.done
        # The message is not kept: its memory is that of the next report.
        self._partitions[index] = message.partition()
        self._offsets[index] = message.offset()
        if error is not None:
            self.error = error
        if next(came) == size:
            # The loop may be gone: then nobody waits.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_finish, done)

    @property
    def confirmed(self) -> bool:
        """Whether it is known of all that they are stored, once it is done without an error."""
        return None not in self._offsets

    def positions(self, messages: Sequence[Message]) -> Positions:
        """Where its messages are, once it is done. They have no place if there was an error."""
        if isinstance(messages, Alike):
            channels = [messages.channel] * len(messages)
        else:
            channels = [message.channel for message in messages]
        return Positions(channels, self._partitions, self._offsets)


class Sender:
    """One producer, replaced when librdkafka declares it broken for good."""

    def __init__(self, settings: Mapping[str, Any], administration: Administration) -> None:
        self._settings = producer_settings(settings)
        self._administration = administration
        self._producer = self._open()
        self._known: set[str] = set()
        self._meetings: dict[str, asyncio.Future[int]] = {}
        self._stopping = False
        self._idle: list[Batch] = []
        self._replacing = threading.Lock()
        self._reports = Reporting(lambda timeout: self._producer.poll(timeout))

    def _open(self) -> Any:
        with faults():
            return Producer(self._settings)

    async def send(self, messages: Sequence[Message]) -> Sequence[Position | None]:
        if not messages:
            return []
        await self.meet(messages)
        self._check_open()
        batch = self._idle.pop() if self._idle else Batch()
        batch.begin(len(messages))
        producer = self._producer
        try:
            await self._produce(messages, batch.callbacks)
        except DragomanError as failure:
            cause = failure.__cause__
            if isinstance(cause, KafkaException) and _is_fatal(cause.args[0]):
                await asyncio.to_thread(self._replace, producer)
            raise
        if self._stopping:
            # These may have come after the last look of ``close``.
            await asyncio.to_thread(_empty, self._producer)
        await self._reports.of(batch.done, len(messages))
        positions, error, confirmed = batch.positions(messages), batch.error, batch.confirmed
        # All reports are there, so nobody else can call it any more.
        if len(self._idle) < _KEPT and len(batch.callbacks) <= _LONGEST:
            self._idle.append(batch)
        if error is not None:
            if _is_fatal(error):
                await asyncio.to_thread(self._replace, producer)
            raise await self._failed(error, messages)
        if not confirmed:
            raise unconfirmed(_only(_channels(messages)), "Publish them again: some may come twice.")
        return positions

    async def _produce(self, messages: Sequence[Message], reports: Sequence[Callable[..., None]]) -> None:
        unused = iter(reports)
        calls = _calls(messages, unused)
        while True:
            try:
                # All that the driver takes are handed over outside Python.
                deque(starmap(self._producer.produce, calls), maxlen=0)
                return
            except (BufferError, KafkaException):
                refused = len(reports) - length_hint(unused) - 1
                await self._produce_patiently(messages[refused], reports[refused])

    def _check_open(self) -> None:
        if self._stopping:
            raise BrokerUnavailable("The connection is closed.", next="Connect again.")

    async def _produce_patiently(self, message: Message, report: Callable[..., None]) -> None:
        """Wait for room in the queue; ask once about a topic or partition that the producer does not know."""
        asked = False
        while True:
            self._check_open()
            try:
                with faults(channel=message.channel):
                    self._producer.produce(*arguments_of(message, report))
                return
            except BrokerUnavailable as error:
                if not isinstance(error.__cause__, BufferError):
                    raise
                await asyncio.sleep(_FULL_PAUSE)
            except ChannelNotFound:
                if asked:
                    raise
                asked = True
                partitions = await asyncio.to_thread(self._await_leaders, message.channel)
                _check_partition(message, partitions)

    async def meet(self, messages: Sequence[Message]) -> None:
        """Before the first message to a channel. One that comes too early for a leader may not be saved."""
        unknown = _channels(messages) - self._known
        if unknown:
            await asyncio.gather(*map(self._meet, unknown))

    async def _meet(self, channel: str) -> None:
        """Asked once for all who want to publish to it."""
        begun = self._meetings.get(channel)
        if begun is not None:
            # What was not there when it began may be there by now.
            with contextlib.suppress(ChannelNotFound):
                await asyncio.shield(begun)
                return
        meeting = self._meetings.get(channel)
        if meeting is None or meeting is begun:
            meeting = asyncio.ensure_future(asyncio.to_thread(self._await_leaders, channel))
            self._meetings[channel] = meeting
            meeting.add_done_callback(partial(self._met, channel))
        await asyncio.shield(meeting)

    def _met(self, channel: str, meeting: asyncio.Future[int]) -> None:
        if self._meetings.get(channel) is meeting:
            del self._meetings[channel]
        # Whoever wanted to know may be gone.
        if not meeting.cancelled() and meeting.exception() is None:
            self._known.add(channel)

    def _await_leaders(self, channel: str) -> int:
        """How many partitions a topic has. Their leaders are given a moment to take up their work."""
        partitions = self._learn(channel)
        led = [number for number, partition in partitions.items() if partition.leader >= 0]
        if led:
            with contextlib.suppress(BrokerError):
                self._administration.await_leaders(channel, led, _GETTING_READY)
        return len(partitions)

    def _learn(self, channel: str) -> Mapping[int, Any]:
        """The partitions of a topic. Asked by the producer itself, which so comes to know it."""
        with faults(channel=channel):
            found = self._producer.list_topics(channel, timeout=TIMEOUT).topics.get(channel)
        if found is None or found.error is not None or not found.partitions:
            self._known.discard(channel)
            raise missing(channel)
        partitions: Mapping[int, Any] = found.partitions
        return partitions

    def _replace(self, broken: Any) -> None:
        """A new producer for a broken one; others who wait for the broken one are told, too."""
        with self._replacing:
            if self._producer is broken:
                self._producer = self._open()
        _empty(broken)

    async def _failed(self, error: KafkaError, messages: Sequence[Message]) -> DragomanError:
        channels = _channels(messages)
        if error.code() in _GONE:
            # The driver forgets a topic that was deleted, and says no more than that.
            for channel in channels:
                try:
                    await asyncio.to_thread(self._learn, channel)
                except DragomanError as failure:
                    return failure
        return translated(error, channel=_only(channels))

    def close(self) -> None:
        """Blocks until everything accepted is out, or its time is over: then whoever waits for it is told."""
        self._stopping = True
        _empty(self._producer)
        self._reports.close()


def _empty(producer: Any) -> None:
    """Everything goes out in time, or is given up: whoever waits for it is told either way."""
    if producer.flush(TIMEOUT):
        producer.purge()
        producer.flush(TIMEOUT)


def _is_fatal(error: KafkaError) -> bool:
    """Whether the producer is broken for good. Only what says so first has the flag."""
    return bool(error.fatal()) or error.code() == KafkaError._FATAL


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def arguments_of(message: Message, report: Callable[..., None] | None) -> tuple[Any, ...]:
    """Of the driver's ``produce``. By place, which is faster; the report has a second name there."""
    channel, payload, key, headers, place, _, timestamp, _ = message
    place = _ANY if place is None else place
    return channel, payload, key, place, report, None, timestamp or 0, list(headers) if headers else None


def _calls(messages: Sequence[Message], reports: Iterator[Callable[..., None]]) -> Iterator[tuple[Any, ...]]:
    """The arguments for all of them. There may be more reports than messages."""
    if not isinstance(messages, Alike):
        return map(arguments_of, messages, reports)
    channel, _, key, place, _, _, timestamp, headers = arguments_of(messages[0], None)
    return zip(
        repeat(channel),
        messages.payloads,
        repeat(key),
        repeat(place),
        reports,
        repeat(None),
        repeat(timestamp),
        repeat(headers),
        strict=False,
    )


def _channels(messages: Sequence[Message]) -> set[str]:
    if isinstance(messages, Alike):
        return {messages.channel}
    return {message.channel for message in messages}


def _only(channels: set[str]) -> str | None:
    return next(iter(channels)) if len(channels) == 1 else None


def _check_partition(message: Message, partitions: int) -> None:
    if message.partition is not None and not 0 <= message.partition < partitions:
        raise ConfigurationError(
            f"There is no partition {message.partition}.",
            next=f"The channel has {partitions}, counted from 0.",
            channel=message.channel,
        )
