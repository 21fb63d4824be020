"""A member of a group: the sessions on whose seats it sits."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from dragoman.adapters.mqtt.channels import Declared
from dragoman.adapters.mqtt.content import ENVELOPE, from_envelope, from_properties
from dragoman.adapters.mqtt.control import Control, Tell
from dragoman.adapters.mqtt.options import Options
from dragoman.adapters.mqtt.seats import BEAT, SILENCE, TEMPORARY, Seats, Table
from dragoman.adapters.mqtt.session import Session
from dragoman.adapters.mqtt.wire import Incoming, Will
from dragoman.core.broker import Sharing, Subscription, revoked
from dragoman.core.ending import end, is_ending
from dragoman.core.errors import BrokerError, BrokerUnavailable, DecodeError, DragomanError
from dragoman.core.message import Message, with_headers

TOPIC = "mqtt-topic"
"""The header with the topic a message was published to, on channels whose topic has wildcards."""
IDLE = 20.0
"""A member that is not used for so many seconds leaves its seats to the others until it is used again."""
CLAIMING = 0.02
"""Seconds in which others who claim a seat at the same time may show themselves."""
ROUND = 1.0
"""Seconds until the seats are looked at again, if nothing happens before."""

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a receiver needs of its broker. The channels are its own: their topic and content never change."""

    options: Options
    control: Control
    channels: Mapping[str, Declared]


class MqttReceiver:
    """Implements ``dragoman.core.broker.Receiver``. A message's partition is the seat by which it came."""

    def __init__(self, around: Surroundings, subscription: Subscription) -> None:
        self.closed = False
        self.member = f"{subscription.member or 'member'}-{uuid4().hex}"
        self._options = around.options
        self._control = around.control
        self._channels = around.channels
        self._subscription = subscription
        self._seats: dict[str, Seats] = {}
        self._sessions: dict[Place, Session] = {}
        self._turns: list[Session] = []
        self._offsets = itertools.count()
        self._news = asyncio.Event()
        self._stirred = asyncio.Event()
        self._care: asyncio.Task[None] | None = None
        self._trouble: DragomanError | None = None
        self._held: set[Session] = set()
        self._used = time.monotonic()
        self._beat_at = 0.0
        self._receiving = False

    async def open(self) -> None:
        for channel, declared in self._channels.items():
            table = Table(self._options.prefix, self._subscription.group, channel)
            seats = Seats(self._control, table, self._subscription, self.member, declared.channel.partitions)
            self._seats[channel] = seats
            await self._control.watch(f"{table.topic}/+", self, self._stirring(seats.told), seats.forget)
            await self._control.watch(table.beats, self, self._stirring(seats.heard))
        await self._control.sync()
        for seats in self._seats.values():
            seats.check_company()
        # A task, so that closing ends it, too: one that went on would sit down again.
        self._care = asyncio.create_task(self._settle_in())
        try:
            await self._care
        except asyncio.CancelledError:
            if is_ending():
                raise
        if self.closed:
            raise _closed()
        self._care = asyncio.create_task(self._take_care())

    async def _settle_in(self) -> None:
        """Until every seat is kept, by us or by others who come at the same time.

        What is published before a seat is kept for the first time would be lost.
        """
        deadline = time.monotonic() + max(self._options.timeout, 2 * SILENCE)
        while True:
            self._stirred.clear()
            await self._tend()
            open_seats = {
                (channel, number) for channel, seats in self._seats.items() for number in seats.not_kept()
            }
            if not open_seats - self._sessions.keys():
                break
            if time.monotonic() > deadline:
                raise BrokerUnavailable(
                    f"Somebody claims seats of {self._subscription.group!r}, and does not sit down.",
                    next="Subscribe again; end that member if it does not help.",
                )
            await asyncio.sleep(CLAIMING)
            await self._wait_until_stirred()
        if self._subscription.sharing is Sharing.EXCLUSIVE:
            await self._control.sync()
            for seats in self._seats.values():
                seats.check_first()

    def _stirring(self, tell: Tell) -> Tell:
        def stir(topic: str, payload: bytes) -> None:
            tell(topic, payload)
            self._stirred.set()

        return stir

    async def _sit_down(self, channel: str, number: int) -> bool:
        """``False`` if somebody else claims the seat at the same time."""
        seats = self._seats[channel]
        session = self._session(channel, number, seats)
        # Written down first: who closes us meanwhile has to free the seat and end the session.
        self._sessions[channel, number] = session
        try:
            if not await seats.claim(number):
                del self._sessions[channel, number]
                return False
            await session.open()
        except DragomanError as error:
            del self._sessions[channel, number]
            if isinstance(error, BrokerUnavailable) and await self._is_lost(seats, number):
                return False
            raise
        self._turns = list(self._sessions.values())
        self._news.set()
        # The will of who sat there before may have been published when we took over.
        await seats.sit(number)
        return True

    async def _is_lost(self, seats: Seats, number: int) -> bool:
        """Whether another one took the seat over on which we could not sit down. If not, it is free."""
        if not self._control.connected:
            return False
        with contextlib.suppress(BrokerError):
            await self._control.sync()
            if not seats.is_ours(number):
                return True
            await seats.leave(number)
        return False

    def _session(self, channel: str, number: int, seats: Seats) -> Session:
        table, durable = seats.table, self._subscription.durable
        will = Will(
            table.seat(number),
            seats.left(number).written(),
            retain=True,
            delay=1,
            expiry=None if durable else TEMPORARY,
        )
        return Session(
            self._options,
            table.client(number),
            self._options.session_expiry if durable else TEMPORARY,
            self._channels[channel].filters(self._subscription.group, number, self._subscription.sharing),
            will,
            lambda incoming: self._message(channel, number, incoming),
            self._news.set,
            lambda: not seats.is_anothers(number),
            self._offsets,
        )

    def _message(self, channel: str, number: int, incoming: Incoming) -> Message:
        declared = self._channels[channel]
        if declared.content == ENVELOPE:
            try:
                content = from_envelope(incoming.payload)
            except DecodeError:
                # As it is: whoever reads it will find that it is no message of this channel.
                content = from_properties(incoming.payload, incoming.user)
        else:
            content = from_properties(incoming.payload, incoming.user)
        headers = content.headers
        if declared.has_wildcards:
            headers = with_headers(headers, (TOPIC, incoming.topic.encode()))
        timestamp = content.timestamp if content.timestamp is not None else int(time.time() * 1000)
        return Message(channel, content.payload, content.key, headers, number, None, timestamp)

    async def _take_care(self) -> None:
        """Sit down where nobody does, get up where another one does, give signs of life."""
        while True:
            try:
                if time.monotonic() - self._used > IDLE and not self._receiving:
                    await self._rest()
                else:
                    await self._tend()
                self._trouble = None
            except DragomanError as error:
                self._trouble = error
                self._news.set()
            self._stirred.clear()
            await self._wait_until_stirred()

    async def _wait_until_stirred(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ROUND):
                await self._stirred.wait()

    async def _tend(self) -> None:
        if time.monotonic() >= self._beat_at:
            self._beat_at = time.monotonic() + BEAT
            for seats in self._seats.values():
                await seats.beat()
        for channel, seats in self._seats.items():
            await self._look_after(channel, seats)

    async def _rest(self) -> None:
        """Nobody asks for what we have: others may."""
        for place in list(self._sessions):
            await self._get_up(self._seats[place[0]], place)

    async def _look_after(self, channel: str, seats: Seats) -> None:
        for place, session in list(self._sessions.items()):
            if place[0] == channel and session.over:
                await self._drop(place)
            elif place[0] == channel and place[1] in seats.known and not seats.is_ours(place[1]):
                await self._settle(seats, place)
        if seats.is_in_the_way():
            for place in [each for each in self._sessions if each[0] == channel]:
                await self._get_up(seats, place)
        while wanted := [each for each in seats.ours() if (channel, each) not in self._sessions]:
            # Together, so that a save of the server serves all of them.
            seated = await asyncio.gather(
                *(self._sit_down(channel, number) for number in wanted), return_exceptions=True
            )
            for each in seated:
                if isinstance(each, BaseException):
                    raise each
            if not all(seated):
                # Others want the same: their signs of life will tell how many we are.
                return

    async def _settle(self, seats: Seats, place: Place) -> None:
        """The table does not name us on a seat where we sit."""
        if seats.known[place[1]].member is None:
            await seats.sit(place[1])
            return
        await self._drop(place)

    async def _get_up(self, seats: Seats, place: Place) -> None:
        await self._drop(place)
        await seats.leave(place[1])

    async def _drop(self, place: Place) -> None:
        session = self._sessions.pop(place)
        self._turns = list(self._sessions.values())
        await session.close()

    async def receive(self, limit: int, timeout: float) -> Sequence[Message]:
        await asyncio.sleep(0)
        self._receiving = True
        try:
            return await self._receive(limit, time.monotonic() + timeout)
        finally:
            self._receiving = False
            self._used = time.monotonic()

    async def _receive(self, limit: int, deadline: float) -> Sequence[Message]:
        while True:
            if self.closed:
                raise _closed()
            self._news.clear()
            if taken := self._take(limit):
                return taken
            self._complain()
            left = deadline - time.monotonic()
            if left <= 0:
                return []
            dues = [due - time.monotonic() for each in self._served() if (due := each.due()) is not None]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(left, *dues, left))):
                    await self._news.wait()

    def _take(self, limit: int) -> list[Message]:
        """The sessions take turns at being the first that is asked."""
        if not self._turns:
            return []
        self._turns.append(self._turns.pop(0))
        taken: list[Message] = []
        for session in self._served():
            taken += session.take(limit - len(taken))
            if len(taken) >= limit:
                break
        return taken

    def _served(self) -> list[Session]:
        return [each for each in self._turns if each not in self._held] if self._held else self._turns

    @property
    def partitions(self) -> int:
        return len(self._sessions)

    def hold(self, places: Collection[tuple[str, int | None]]) -> None:
        if places or self._held:
            found = (self._sessions.get((channel, number or 0)) for channel, number in places)
            self._held = {session for session in found if session is not None}

    def _complain(self) -> None:
        """What does not pass by waiting has to be told."""
        for trouble in (self._trouble, *(each.failure for each in self._turns if not each.connected)):
            if trouble is not None and not isinstance(trouble, BrokerUnavailable):
                raise trouble

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        self._used = time.monotonic()
        late = None
        for message in messages:
            session = self._sessions.get((message.channel, message.partition or 0))
            if session is None or session.lost(message.offset or 0):
                late = message
            else:
                session.acknowledge(message.offset or 0)
        if late is not None:
            raise revoked(late, self._subscription.group)

    async def release(self, messages: Sequence[Message], delay: float = 0.0) -> None:
        late = None
        offsets: dict[Session, set[int]] = {}
        for message in messages:
            session = self._sessions.get((message.channel, message.partition or 0))
            if session is None or session.lost(message.offset or 0):
                late = message
            else:
                offsets.setdefault(session, set()).add(message.offset or 0)
        for session, some in offsets.items():
            session.release(some, delay)
        self._news.set()
        if late is not None:
            raise revoked(late, self._subscription.group)

    def lost(self, message: Message) -> bool:
        session = self._sessions.get((message.channel, message.partition or 0))
        return session is None or session.lost(message.offset or 0)

    async def extend(self) -> None:
        """What is in flight stays ours as long as the connection lives, and somebody cares."""
        self._used = time.monotonic()

    async def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self._care is not None:
            await end(self._care)
        sessions, self._sessions, self._turns = self._sessions, {}, []
        for (channel, number), session in sessions.items():
            seats = self._seats[channel]
            last = not self._subscription.durable and seats.members() == [self.member]
            await session.close(last=last)
            if self._control.connected:
                with contextlib.suppress(BrokerError):
                    if last:
                        await seats.remove(number)
                    else:
                        await seats.leave(number)
        for seats in self._seats.values():
            with contextlib.suppress(BrokerError):
                await seats.say_goodbye()
            await self._control.unwatch(f"{seats.table.topic}/+", self)
            await self._control.unwatch(seats.table.beats, self)
        self._news.set()


def _closed() -> BrokerUnavailable:
    return BrokerUnavailable("The receiver is closed.", next="Subscribe again.")
