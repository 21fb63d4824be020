"""A publisher: what a program sends with, as long as there is a transport for its topic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from dragoman.core.errors import EncodeError, PublisherUnavailable
from dragoman.topology.grouping import Groups, Limits
from dragoman.topology.outlet import Outlet
from dragoman.topology.topic import Topic

Metadata = Mapping[str, str | bytes]


class Publisher:
    """Safe for many tasks of one event loop. It stays the same object when its transport is replaced."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self._outlet: Outlet | None = None
        self._why = "It was never there."
        self._groups = Groups(topic.key, Limits(), time.monotonic)
        self._collecting = ""

    async def send(self, value: Any, *, metadata: Metadata | None = None) -> None:
        """Send one object of a record class; returns once the transport has it.

        Raises ``PublisherUnavailable``, ``EncodeError``, ``ConstraintViolated``, ``BrokerError``.
        """
        outlet = self._outlet or self._missing()
        encode = outlet.encoders.get(value.__class__)
        frame = await outlet.encode(value) if encode is None else encode(value)
        await outlet.send((value,), (frame,), _raw(metadata) if metadata else None)

    async def send_multipart(self, value: Any, flags: int, *, metadata: Metadata | None = None) -> None:
        """Add an object to this task's group; with ``Flag.LAST`` all of them go out as one message.

        The first object is what subscribers receive, the others they get by class, so a class can be there
        once. ``metadata`` counts with the last. Raises ``MultipartError`` and what ``send`` raises; an object
        that was refused is not in the group, which stays open.
        """
        outlet = self._outlet or self._missing()
        self._same_serializer(outlet)
        self._groups.check(flags, type(value))
        frame = await outlet.encode(value)
        group = self._groups.add(flags, value, frame)
        if group is not None:
            await outlet.send(
                group.objects, tuple(group.frames.values()), _raw(metadata) if metadata else None
            )

    def abort(self) -> bool:
        """Forget what this task has collected so far; whether there was anything."""
        return self._groups.abort()

    @property
    def available(self) -> bool:
        return self._outlet is not None

    def _same_serializer(self, outlet: Outlet) -> None:
        """A group that was begun with another serializer cannot be finished."""
        if self._collecting and self._collecting != outlet.serializer:
            self._groups = Groups(self.topic.key, outlet.limits, time.monotonic)
        self._collecting = outlet.serializer

    def use(self, outlet: Outlet | None, why: str = "") -> None:
        """The manager's call: from now on by this way, or by none."""
        self._outlet = outlet
        self._why = why
        if outlet is not None:
            self._groups.limits = outlet.limits

    def _missing(self) -> Outlet:
        raise PublisherUnavailable(
            f"There is no transport for {self.topic}. {self._why}".rstrip(),
            next="Wait for it with request.wait(), or ask 'dragoman topology explain'.",
            topic=self.topic.key,
        )


def _raw(metadata: Metadata) -> dict[str, bytes]:
    found = {}
    for name, value in metadata.items():
        if name.startswith("dragoman-") or not isinstance(value, str | bytes):
            raise EncodeError(
                f"The metadata {name!r} cannot be sent.",
                code="message.header",
                next="Values are str or bytes; names do not begin with 'dragoman-'.",
            )
        found[name] = value.encode() if isinstance(value, str) else value
    return found
