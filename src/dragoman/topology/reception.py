"""The way into this program for one topic: reads messages and hands them to the subscribers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dragoman.client.cancellation import contain, unreadable
from dragoman.core.backoff import Backoff
from dragoman.core.errors import MessageError
from dragoman.schema.framing import HEADER_SIZE
from dragoman.topology.interceptor import Passage
from dragoman.topology.metrics import TopicMetrics
from dragoman.topology.multipart import Multipart, Part
from dragoman.topology.outlet import Surroundings
from dragoman.topology.parcel import Parcel
from dragoman.topology.presence import Offer
from dragoman.topology.serializer import Codecs
from dragoman.topology.topic import Topic

log = logging.getLogger("dragoman.topology")

AGAIN = Backoff(0.1, 5.0)


class Reading(NamedTuple):
    """How frames of one schema begin a message for one subscriber."""

    name: str
    schema_id: int
    decode: Callable[[bytes], Any] | None
    """Missing where the subscriber does not take the type."""


Reader = tuple[Offer, Any, Multipart]
"""A subscriber, and what it is called with."""


class Reception:
    """Implements ``Inlet``."""

    def __init__(self, topic: Topic, shared: Surroundings, metrics: TopicMetrics) -> None:
        self.topic = topic
        self.metrics = metrics
        self.offers: list[Offer] = []
        self._codecs: Codecs = shared.codecs
        self._interceptors = shared.interceptors
        self._now = shared.clock.now
        self._readings: dict[tuple[Offer, str, bytes], Reading] = {}
        self._allowed: dict[tuple[Offer, str], Mapping[str, type]] = {}

    def add(self, offer: Offer) -> None:
        self.offers.append(offer)

    def remove(self, offer: Offer) -> None:
        self.offers.remove(offer)
        self._readings = {key: value for key, value in self._readings.items() if key[0] is not offer}
        self._allowed = {key: value for key, value in self._allowed.items() if key[0] is not offer}

    def expects(self) -> bool:
        return bool(self.offers)

    def progress(self, origin: str, sequence: int) -> None:
        self.metrics.origin(origin).sequence.reach(sequence)

    async def deliver(self, parcel: Parcel, serializer: str, attempts: int = 1, once: bool = False) -> None:
        if parcel.origin:
            # Names may have dots, so the channel of one topic can be that of another in a scope.
            if parcel.scope != self.topic.scope:
                return
            origin = self.metrics.origin(parcel.origin)
            new = origin.came(parcel.sequence, parcel.sent_at, int(self._now() * 1000))
            if once and not new:
                return
        try:
            readers = self._read_known(parcel, serializer)
            if readers is None:
                readers = await self._read(parcel, serializer)
        except MessageError:
            self.metrics.invalid += 1
            raise
        if not readers:
            self.metrics.unwanted += 1
            return
        passage = None
        if self._interceptors:
            passage = self._passage(parcel, readers[0][1])
            if not await self._let_in(passage):
                self.metrics.receive_vetoed += 1
                return
        failure = None
        for offer, message, multipart in readers:
            try:
                await contain(offer.receive, message, multipart)
            except Exception as error:
                failure = await self._again(offer, message, multipart, attempts - 1, error) or failure
        if failure is not None:
            raise failure
        self.metrics.handled += 1
        if passage is not None:
            await self._tell(passage)

    def _passage(self, parcel: Parcel, message: Any) -> Passage:
        return Passage(self.topic, (message,), dict(parcel.metadata), parcel.origin, parcel.sequence)

    async def _let_in(self, passage: Passage) -> bool:
        async def ask() -> bool:
            return all(each.before_receive(passage) for each in self._interceptors)

        try:
            return bool(await contain(ask))
        except Exception:
            self.metrics.failed += 1
            raise

    def _read_known(self, parcel: Parcel, serializer: str) -> list[Reader] | None:
        """The same as ``_read`` without waiting: for single objects of schemas that came before."""
        if parcel.parts:
            return None
        frame = parcel.payload
        found: list[Reader] = []
        for offer in self.offers:
            reading = self._readings.get((offer, serializer, frame[:HEADER_SIZE]))
            if reading is None:
                return None
            if reading.decode is not None:
                message = _object(reading.decode, frame)
                only = (Part(reading.name, reading.schema_id, frame),)
                found.append(
                    (offer, message, Multipart(message, only, self._codecs, serializer, parcel.metadata))
                )
        return found

    async def _read(self, parcel: Parcel, serializer: str) -> list[Reader]:
        """For each subscriber that takes the first object: that object, and the way to the others."""
        frames = parcel.frames
        parts = [await self._part(serializer, frame) for frame in frames[1:]]
        found: list[Reader] = []
        for offer in tuple(self.offers):
            reading = self._readings.get((offer, serializer, frames[0][:HEADER_SIZE]))
            if reading is None:
                reading = await self._learn(offer, serializer, frames[0])
            if reading.decode is not None:
                message = _object(reading.decode, frames[0])
                every = (Part(reading.name, reading.schema_id, frames[0]), *parts)
                found.append(
                    (offer, message, Multipart(message, every, self._codecs, serializer, parcel.metadata))
                )
        return found

    async def _part(self, serializer: str, frame: bytes) -> Part:
        schema_id, name = await self._codecs.type_name(serializer, frame)
        return Part(name, schema_id, frame)

    async def _learn(self, offer: Offer, serializer: str, frame: bytes) -> Reading:
        """Which class it is: one that the subscriber allows, found by name in the registry's schema."""
        schema_id, name = await self._codecs.type_name(serializer, frame)
        cls = None
        if offer.types:
            allowed = self._allowed.get((offer, serializer))
            if allowed is None:
                allowed = self._codecs.names_of(serializer, offer.types)
                self._allowed[offer, serializer] = allowed
            cls = allowed.get(name)
        taken = cls is not None or not offer.types
        decode = self._codecs.decoder(serializer, schema_id, cls) if taken else None
        reading = self._readings[offer, serializer, frame[:HEADER_SIZE]] = Reading(name, schema_id, decode)
        return reading

    async def _again(
        self, offer: Offer, message: Any, multipart: Multipart, left: int, error: Exception
    ) -> Exception | None:
        """A subscriber failed: call it as often as is left. Gives its last error."""
        waits = AGAIN.waits_s()
        while True:
            self.metrics.failed += 1
            log.warning(
                "A subscriber failed.", exc_info=error, extra={"topic": self.topic.key, "attempts_left": left}
            )
            if left <= 0:
                return error
            await asyncio.sleep(next(waits))
            left -= 1
            try:
                await contain(offer.receive, message, multipart)
                return None
            except Exception as another:
                error = another

    async def _tell(self, passage: Passage) -> None:
        for interceptor in self._interceptors:
            try:
                await contain(interceptor.after_receive, passage)
            except Exception:
                log.exception("An interceptor failed after receiving.", extra={"topic": self.topic.key})


def _object(decode: Callable[[bytes], Any], frame: bytes) -> Any:
    """Raises ``MessageError`` if it cannot be read, whatever its codec raises."""
    try:
        return decode(frame)
    except MessageError:
        raise
    except BaseException as error:
        raise unreadable(error) from error
