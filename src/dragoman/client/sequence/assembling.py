"""Putting the parts of a sequence together: held back, unacknowledged, until the whole is handled."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import DONE, Outcome, again, kept
from dragoman.client.path import Take
from dragoman.client.pausing import Pauses
from dragoman.client.sequence.options import SequenceOptions
from dragoman.client.sequence.parts import Place, join, place_of
from dragoman.client.transactional.brokered import RECEIVED
from dragoman.core.errors import FrameError, MessageError
from dragoman.core.message import Message

Refuse: TypeAlias = Callable[[Message, MessageError], Awaitable[Outcome]]
"""Send one part to where somebody looks at it."""

REMEMBERED = 1000
"""Sequences that are done with: a part that comes again belongs to one of them."""
REST = 1.0


class _Open:
    """A sequence of which parts are still missing."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.bytes = 0
        self.parts: dict[int, tuple[Message, asyncio.Future[Outcome]]] = {}
        self.spots: dict[int, tuple[object, ...]] = {}
        """Where each was received: that is where it is settled."""
        self.watch: asyncio.Task[None] | None = None

    def gap(self) -> MessageError:
        missing = [str(position) for position in range(self.size) if position not in self.parts]
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        return _wrong(
            f"{len(missing)} of its {self.size} parts did not come in time: {shown}.", "message.sequence-gap"
        )


class Assembler:
    """Takes the parts of sequences of one channel.

    A part stays unacknowledged until its whole is handled, so whoever is killed in between gets all parts
    again. When the others do not come in time, or there are too many, all go aside with the reason.
    """

    def __init__(
        self,
        handle: Take,
        refuse: Refuse,
        options: SequenceOptions,
        pauses: Pauses,
        counters: ChannelMetrics,
    ) -> None:
        self._handle = handle
        self._refuse = refuse
        self._options = options
        self._pauses = pauses
        self._counters = counters
        self._open: dict[bytes, _Open] = {}
        self._closed: OrderedDict[bytes, MessageError | None] = OrderedDict()
        self._held = 0

    async def take(self, message: Message) -> Outcome:
        try:
            place = place_of(message)
        except MessageError as error:
            return await self._refuse(message, error)
        if place is None or (place.id in self._closed and self._closed[place.id] is None):
            self._counters.ignored += 1
            return DONE  # Its whole was handled: it was sent, or delivered, once more.
        reason = self._closed.get(place.id) or self._objection(place, message)
        if reason is None:
            return await self._hold(place, message)
        await self._give_up(place.id, reason)
        return await self._refuse(message, reason)

    def _objection(self, place: Place, message: Message) -> MessageError | None:
        found, options = self._open.get(place.id), self._options
        size = len(message.payload or b"") + (found.bytes if found else 0)
        if found is not None and found.size != place.size:
            return _wrong("Its parts do not agree on how many there are.")
        if place.size > options.parts:
            return _wrong(f"It has {place.size} parts, and {options.parts} are allowed.")
        if size > options.bytes:
            return _wrong(f"It is larger than {options.bytes} bytes.")
        return None

    async def _hold(self, place: Place, message: Message) -> Outcome:
        found = self._open.get(place.id)
        if found is None:
            if self._held >= self._options.parts:
                return again(REST)
            found = self._open[place.id] = _Open(place.size)
            found.watch = asyncio.create_task(self._expire(place.id))
        before, spot = found.parts.get(place.position), _spot(message)
        if before is not None:
            if found.spots[place.position] == spot:
                before[1].cancel()
            else:
                # Sent twice, numbered anew by another receiver, or tried again: the last one is still to be
                # acknowledged.
                self._counters.ignored += 1
                _settle([before], DONE)
            found.bytes -= len(before[0].payload or b"")
            self._held -= 1
        later: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        found.parts[place.position] = (message, later)
        found.spots[place.position] = spot
        found.bytes += len(message.payload or b"")
        self._held += 1
        if len(found.parts) < found.size:
            return Outcome(acknowledge=False, later=later)
        # The last one is handled as the whole, in its lane: what comes after it waits.
        return await self._complete(place.id)

    async def _complete(self, id: bytes) -> Outcome:
        found = self._remove(id)
        held = [found.parts[position] for position in range(found.size)]
        whole = join([message for message, _ in held])
        try:
            outcome = await self._handle(whole)
        except Exception as error:
            outcome = kept(whole, error)
        except BaseException:
            # The other parts would wait for ever: they come again, with this one.
            _settle(held, again())
            raise
        if outcome.acknowledge:
            self._remember(id, None)
            self._counters.ignored += len(held) - 1
        _settle(held, outcome)
        return outcome

    async def _expire(self, id: bytes) -> None:
        if await self._pauses(self._options.timeout):
            found = self._open[id]
            found.watch = None
            await self._give_up(id, found.gap())

    async def _give_up(self, id: bytes, reason: MessageError) -> None:
        self._remember(id, reason)
        if id not in self._open:
            return
        found = self._remove(id)
        held = [part for _, part in sorted(found.parts.items())]
        try:
            for message, later in held:
                try:
                    outcome = await self._refuse(message, reason)
                except Exception as error:
                    outcome = kept(message, error)
                _settle([(message, later)], outcome)
        finally:
            # If this is cancelled, those that are left come again.
            _settle(held, again())

    def _remove(self, id: bytes) -> _Open:
        found = self._open.pop(id)
        self._held -= len(found.parts)
        if found.watch is not None:
            found.watch.cancel()
        return found

    def _remember(self, id: bytes, reason: MessageError | None) -> None:
        self._closed[id] = reason
        if len(self._closed) > REMEMBERED:
            self._closed.popitem(last=False)


def no_parts(refuse: Refuse) -> Take:
    """For endpoints that cannot wait until a sequence is whole: its parts go aside with the reason."""
    reason = FrameError(
        "A part of a sequence came to an endpoint that cannot put it together.",
        code="message.sequence",
        next="Let it take one message at a time, without a transaction of the broker.",
    )
    return lambda message: refuse(message, reason)


def _settle(held: list[tuple[Message, asyncio.Future[Outcome]]], outcome: Outcome) -> None:
    for _, later in held:
        if not later.done():
            later.set_result(outcome)


def _spot(message: Message) -> tuple[object, ...]:
    """Of a message that is tried again, not where it was at first."""
    received = RECEIVED.get() or message
    return received.channel, received.partition, received.offset


def _wrong(what: str, code: str = "message.sequence") -> FrameError:
    return FrameError(
        f"A sequence cannot be put together. {what}",
        code=code,
        next="Send it again. Where members of a group share a channel, they must share it by key.",
    )
