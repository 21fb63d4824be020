"""The way into this program for one topic: reads messages and hands them to the subscribers."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class Reading(NamedTuple):
    """How frames of one schema begin a message for one subscriber."""

    name: str
    schema_id: int
    decode: Callable[[bytes], Any] | None
    """Missing where the subscriber does not take the type."""


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

    def progress(self, origin: str, sequence: int) -> None:
        self.metrics.origin(origin).sequence.reach(sequence)

    async def deliver(self, parcel: Parcel, serializer: str, attempts: int = 1, once: bool = False) -> None:
        if parcel.scope != self.topic.scope:
            return
        if parcel.origin:
            origin = self.metrics.origin(parcel.origin)
            new = origin.came(parcel.sequence, parcel.sent_at, int(self._now() * 1000))
            if once and not new:
                return
        readers = await self._read(parcel, serializer)
        if not readers:
            self.metrics.unwanted += 1
            return
        passage = None
        if self._interceptors:
            passage = Passage(
                self.topic, (readers[0][1],), dict(parcel.metadata), parcel.origin, parcel.sequence
            )
            if not all(each.before_receive(passage) for each in self._interceptors):
                self.metrics.receive_vetoed += 1
                return
        failure = None
        for offer, message, multipart in readers:
            failure = await self._hand(offer, message, multipart, attempts) or failure
        if failure is not None:
            raise failure
        self.metrics.handled += 1
        if passage is not None:
            self._tell(passage)

    async def _read(self, parcel: Parcel, serializer: str) -> list[tuple[Offer, Any, Multipart]]:
        """For each subscriber that takes the first object: that object, and the way to the others."""
        try:
            frames = parcel.frames
            parts = [await self._part(serializer, frame) for frame in frames[1:]]
            found = []
            for offer in tuple(self.offers):
                reading = self._readings.get((offer, serializer, frames[0][:HEADER_SIZE]))
                if reading is None:
                    reading = await self._learn(offer, serializer, frames[0])
                if reading.decode is not None:
                    first = Part(reading.name, reading.schema_id, frames[0])
                    message = reading.decode(frames[0])
                    multipart = Multipart(message, (first, *parts), self._codecs, serializer, parcel.metadata)
                    found.append((offer, message, multipart))
            return found
        except MessageError:
            self.metrics.invalid += 1
            raise

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

    async def _hand(
        self, offer: Offer, message: Any, multipart: Multipart, attempts: int
    ) -> Exception | None:
        """Call the subscriber, again if need be; its last error."""
        pause = FIRST_PAUSE
        while True:
            try:
                result = offer.receive(message, multipart)
                if inspect.isawaitable(result):
                    await result
                return None
            except Exception as error:
                self.metrics.failed += 1
                attempts -= 1
                log.warning(
                    "A subscriber failed.",
                    exc_info=error,
                    extra={"topic": self.topic.key, "attempts_left": attempts},
                )
                if attempts <= 0:
                    return error
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _tell(self, passage: Passage) -> None:
        for interceptor in self._interceptors:
            try:
                interceptor.after_receive(passage)
            except Exception:
                log.exception("An interceptor failed after receiving.", extra={"topic": self.topic.key})
