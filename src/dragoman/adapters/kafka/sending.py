"""Messages to Kafka: an idempotent producer with all acknowledgements, its reports brought into the loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from dragoman.adapters.kafka.administration import TIMEOUT, missing
from dragoman.adapters.kafka.faults import faults, translated
from dragoman.adapters.kafka.reading import positions_of
from dragoman.core.errors import BrokerUnavailable, ChannelNotFound, ConfigurationError, DragomanError
from dragoman.core.message import Message, Position

_FULL_PAUSE = 0.005
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
    """Waits for the reports of all its messages. Filled by the thread that polls the producer."""

    __slots__ = ("_loop", "_missing", "_reports", "done", "error")

    def __init__(self, size: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._missing = size
        self.error: KafkaError | None = None
        self._reports: list[Any] = [None] * size
        self.done: asyncio.Future[None] = self._loop.create_future()

    def report(self, index: int, error: KafkaError | None, message: Any) -> None:
        self._reports[index] = message
        if error is not None:
            self.error = error
        self._missing -= 1
        if self._missing == 0:
            # The loop may be gone: then nobody waits.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._finish)

    @property
    def positions(self) -> list[Position]:
        """Once it is done, without an error."""
        return positions_of(self._reports)

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class Sender:
    """One producer, replaced when librdkafka declares it broken for good."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = producer_settings(settings)
        self._producer = self._open()
        self._known: set[str] = set()
        self._stopping = False
        self._reports = threading.Thread(target=self._poll, name="dragoman-kafka-reports", daemon=True)
        self._reports.start()

    def _open(self) -> Any:
        with faults():
            return Producer(self._settings)

    def _poll(self) -> None:
        while not self._stopping:
            self._producer.poll(0.1)

    async def send(self, messages: Sequence[Message]) -> Sequence[Position | None]:
        for channel in {message.channel for message in messages} - self._known:
            await asyncio.to_thread(self._learn, channel)
        if not messages:
            return []
        producer, batch = self._producer, Batch(len(messages))
        report = batch.report
        for index, message in enumerate(messages):
            try:
                produce(producer, message, partial(report, index))
            except (BufferError, KafkaException):
                await self._produce_patiently(message, partial(report, index))
        await batch.done
        if batch.error is not None:
            if batch.error.fatal():
                await asyncio.to_thread(self._replace, producer)
            raise await self._failed(batch.error, messages)
        return batch.positions

    async def _produce_patiently(self, message: Message, report: Callable[..., None]) -> None:
        """Wait for room in the queue; ask once about a topic or partition that the producer does not know."""
        asked = False
        while not self._stopping:
            try:
                with faults(channel=message.channel):
                    produce(self._producer, message, report)
                return
            except BrokerUnavailable as error:
                if not isinstance(error.__cause__, BufferError):
                    raise
                await asyncio.sleep(_FULL_PAUSE)
            except ChannelNotFound:
                if asked:
                    raise
                asked = True
                partitions = await asyncio.to_thread(self._learn, message.channel)
                _check_partition(message, partitions)
        raise BrokerUnavailable("The connection is closed.", next="Connect again.")

    def _learn(self, channel: str) -> int:
        """How many partitions a topic has. Asked by the producer itself, which so comes to know it."""
        with faults(channel=channel):
            found = self._producer.list_topics(channel, timeout=TIMEOUT).topics.get(channel)
        if found is None or found.error is not None or not found.partitions:
            self._known.discard(channel)
            raise missing(channel)
        self._known.add(channel)
        return len(found.partitions)

    def _replace(self, broken: Any) -> None:
        """A new producer for a broken one; others who wait for the broken one are told, too."""
        if self._producer is broken:
            self._producer = self._open()
        broken.flush(TIMEOUT)

    async def _failed(self, error: KafkaError, messages: Sequence[Message]) -> DragomanError:
        channels = {message.channel for message in messages}
        if error.code() in _GONE:
            # The driver forgets a topic that was deleted, and says no more than that.
            for channel in channels:
                try:
                    await asyncio.to_thread(self._learn, channel)
                except DragomanError as failure:
                    return failure
        return translated(error, channel=channels.pop() if len(channels) == 1 else None)

    def close(self) -> None:
        """Blocks until everything accepted is out, or its time is over: then whoever waits for it is told."""
        if self._producer.flush(TIMEOUT):
            self._producer.purge()
            self._producer.flush(TIMEOUT)
        self._stopping = True
        self._reports.join()


def produce(producer: Any, message: Message, report: Callable[..., None]) -> None:
    """Raises what the driver raises: ``BufferError`` while the queue is full, ``KafkaException``."""
    channel, payload, key, headers, place, _, timestamp, _ = message
    # Positional, which is faster. The report has two names there.
    producer.produce(
        channel,
        payload,
        key,
        -1 if place is None else place,
        report,
        report,
        timestamp or 0,
        list(headers) if headers else None,
    )


def _check_partition(message: Message, partitions: int) -> None:
    if message.partition is not None and not 0 <= message.partition < partitions:
        raise ConfigurationError(
            f"There is no partition {message.partition}.",
            next=f"The channel has {partitions}, counted from 0.",
            channel=message.channel,
        )
