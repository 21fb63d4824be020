"""The way out of this program for one topic: encodes, numbers, counts, and hands over to the transport."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.client.cancellation import as_failure
from dragoman.core.clock import Clock
from dragoman.core.errors import EncodeError
from dragoman.schema.records import is_record
from dragoman.topology.admin import TopicSender
from dragoman.topology.grouping import Limits
from dragoman.topology.interceptor import Interceptor, Passage
from dragoman.topology.metrics import TopicMetrics
from dragoman.topology.parcel import Parcel
from dragoman.topology.serializer import Codecs
from dragoman.topology.topic import Topic

log = logging.getLogger("dragoman.topology")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all senders and receivers of one program share."""

    codecs: Codecs
    interceptors: list[Interceptor]
    clock: Clock


class Outlet:
    """One sender. All publishers of the topic in this program use it, and share its sequence."""

    def __init__(
        self,
        topic: Topic,
        origin: str,
        sender: TopicSender,
        serializer: str,
        limits: Limits,
        shared: Surroundings,
        metrics: TopicMetrics,
    ) -> None:
        self.topic = topic
        self.origin = origin
        self.sender = sender
        self.serializer = serializer
        self.limits = limits
        self._codecs = shared.codecs
        self._interceptors = shared.interceptors
        self._now = shared.clock.now
        self._metrics = metrics
        self._sequence = 0
        self._busy = 0
        self._idle: asyncio.Event | None = None
        self.encoders: dict[type, Callable[[Any], bytes]] = {}
        """Of the classes that were sent before."""

    async def encode(self, value: Any) -> bytes:
        """The frame. A class that is new here is registered first."""
        cls = value.__class__
        encode = self.encoders.get(cls)
        if encode is None:
            if not is_record(cls):
                raise EncodeError(
                    f"{cls.__qualname__} is not a record class.",
                    code="message.encode.class",
                    next="Decorate the class with @record.",
                    topic=self.topic.key,
                )
            encode = await self._codecs.encoder(self.serializer, self.sender.channel, cls)
            self.encoders[cls] = encode
        return encode(value)

    async def send(
        self, objects: Sequence[Any], frames: Sequence[bytes], metadata: Mapping[str, bytes] | None = None
    ) -> None:
        passage = None
        if self._interceptors:
            passage = Passage(self.topic, objects, dict(metadata or ()), self.origin, self._sequence + 1)
            for interceptor in self._interceptors:
                if not interceptor.before_send(passage):
                    self._metrics.send_vetoed += 1
                    return
            metadata = passage.metadata
        self._sequence = sequence = self._sequence + 1
        single = len(frames) == 1
        parcel = Parcel(
            frames[0] if single else b"".join(frames),
            self.origin,
            sequence,
            int(self._now() * 1000),
            self.topic.scope,
            () if single else tuple(map(len, frames)),
            tuple(metadata.items()) if metadata else (),
        )
        self._busy += 1
        try:
            await self.sender.send(parcel)
        except BaseException:
            self._metrics.send_failed += 1
            raise
        finally:
            self._busy -= 1
            if self._idle is not None and not self._busy:
                self._idle.set()
        self._metrics.sent += 1
        if passage is not None:
            self._tell(passage)

    def _tell(self, passage: Passage) -> None:
        for interceptor in self._interceptors:
            try:
                interceptor.after_send(passage)
            except BaseException as error:
                as_failure(error)
                log.exception("An interceptor failed after sending.", extra={"topic": self.topic.key})

    async def close(self, patience: float = 10.0) -> None:
        """What is being sent goes out first."""
        self._idle = asyncio.Event()
        try:
            async with asyncio.timeout(patience):
                if self._busy:
                    await self._idle.wait()
        except TimeoutError:
            log.warning("A sender closes while it is sending.", extra={"topic": self.topic.key})
        await self.sender.close()
