"""A session on the server, served: its messages in order of receipt, and their acknowledgement."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dragoman.adapters.mqtt.channels import Filters
from dragoman.adapters.mqtt.connection import Connection, open_connection
from dragoman.adapters.mqtt.options import Options
from dragoman.adapters.mqtt.wire import V5, Connect, Incoming, Will
from dragoman.core.backoff import Backoff
from dragoman.core.ending import end
from dragoman.core.errors import BrokerUnavailable, DragomanError
from dragoman.core.message import Message

REST = Backoff(0.05, 2.0)
UNREAD = 256
"""Acknowledgements that the server may not have read yet; beyond that nothing more is handed out."""


@dataclass(slots=True)
class Held:
    message: Message
    offset: int
    packet: int
    qos: int


class Session:
    """Comes back by itself as long as ``is_ours`` says so, for instance after the server was away.

    Packet numbers count within one connection. What was delivered by an earlier one is lost: its number may
    belong to another message by now, and the server sends it again. Acknowledging goes in the order of
    receipt, as MQTT demands. There is no giving back in MQTT: what is released waits here.

    A server that saves reads acknowledgements slowly, and what it has not read when this process dies comes
    again. Mosquitto 2.0 does not bound that: it sends all it has once a few are acknowledged, whatever the
    receive maximum. So a ping goes behind acknowledgements, and its answer says that they were read.
    """

    def __init__(
        self,
        options: Options,
        client: str,
        expiry: int,
        filters: Filters,
        will: Will,
        read: Callable[[Incoming], Message],
        wake: Callable[[], None],
        is_ours: Callable[[], bool],
        offsets: Iterator[int],
    ) -> None:
        self.failure: DragomanError | None = None
        """Why it is not connected."""
        self._options = options
        self._client = client
        self._expiry = expiry
        self._filters = filters
        self._will = will
        self._read = read
        self._wake = wake
        self._is_ours = is_ours
        self._offsets = offsets
        self._connection: Connection | None = None
        self._gone = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._waiting: deque[Held] = deque()
        self._flying: deque[Held] = deque()
        self._first = 0
        """The lowest offset of this connection."""
        self._done = -1
        self._not_before = 0.0
        self._unread = 0
        self._asking = False

    @property
    def connected(self) -> bool:
        return self._connection is not None and self._connection.ended is None

    @property
    def over(self) -> bool:
        """It has ended and does not come back."""
        return self._task is not None and self._task.done()

    async def open(self) -> None:
        """Raises what keeps it from being opened the first time."""
        await self._connect()
        self._task = asyncio.create_task(self._keep())

    async def _connect(self) -> None:
        options = self._options
        self._gone.clear()
        self._forget()
        wanted = Connect(
            self._client,
            False,
            options.keep_alive,
            options.username,
            options.password,
            self._will,
            self._expiry,
            options.receive_maximum,
        )
        connection = await open_connection(options, wanted, self._came, self._lost)
        try:
            # Set before the subscription: an old session delivers at once.
            self._connection = connection
            if connection.resumed:
                for filter in self._filters.unwanted:
                    await connection.unsubscribe(filter)
            for filter in self._filters.wanted:
                await connection.subscribe(filter, options.qos, only_new=True)
        except DragomanError:
            connection.abort()
            raise
        self.failure = None

    def _forget(self) -> None:
        """What came by an earlier connection comes again."""
        self._waiting.clear()
        self._flying.clear()
        self._first = next(self._offsets)
        self._done = self._first
        self._not_before = 0.0
        self._unread = 0
        self._asking = False

    async def _keep(self) -> None:
        waits = REST.waits_s()
        while True:
            await self._gone.wait()
            if not self._is_ours():
                return
            await asyncio.sleep(next(waits))
            try:
                await self._connect()
                waits = REST.waits_s()
            except DragomanError as error:
                self.failure = error
                self._gone.set()

    def _came(self, incoming: Incoming) -> None:
        offset = next(self._offsets)
        message = self._read(incoming)._replace(offset=offset)
        self._waiting.append(Held(message, offset, incoming.packet, incoming.qos))
        self._wake()

    def _lost(self, error: DragomanError) -> None:
        self.failure = error
        self._forget()
        self._gone.set()
        self._wake()

    def take(self, limit: int) -> list[Message]:
        if not self._waiting or self._unread >= UNREAD or time.monotonic() < self._not_before:
            return []
        taken: list[Message] = []
        while self._waiting and len(taken) < limit:
            held = self._waiting.popleft()
            self._flying.append(held)
            taken.append(held.message)
        return taken

    def due(self) -> float | None:
        """When there will be something to take that is held back now."""
        return self._not_before if self._waiting and self._not_before > time.monotonic() else None

    def lost(self, offset: int) -> bool:
        if offset < self._first:
            return True
        return offset > self._done and not (self._flying and offset <= self._flying[-1].offset)

    def acknowledge(self, offset: int) -> None:
        """This one, and all that came before it."""
        done = []
        while self._flying and self._flying[0].offset <= offset:
            held = self._flying.popleft()
            self._done = held.offset
            if held.qos:
                done.append((held.packet, held.qos))
        if done and self._connection is not None:
            with contextlib.suppress(BrokerUnavailable):
                self._connection.acknowledge(done)
                self._unread += len(done)
                self._ask_what_is_read(self._connection)

    def _ask_what_is_read(self, connection: Connection) -> None:
        """One question at a time, for all that was sent by then."""
        if self._asking:
            return
        asked = self._unread

        def answered(pong: asyncio.Future[None]) -> None:
            if connection is not self._connection or pong.cancelled() or pong.exception() is not None:
                return
            self._asking = False
            self._unread -= asked
            if self._unread:
                with contextlib.suppress(BrokerUnavailable):
                    self._ask_what_is_read(connection)
            self._wake()

        connection.ping().add_done_callback(answered)
        self._asking = True

    def release(self, offsets: set[int], delay: float) -> None:
        """These and all behind them wait again; nothing of the session is delivered before the delay."""
        lowest = min(offsets)
        back: list[Held] = []
        while self._flying and self._flying[-1].offset >= lowest:
            held = self._flying.pop()
            if held.offset in offsets:
                held.message = held.message._replace(attempt=held.message.attempt + 1)
            back.append(held)
        self._waiting.extendleft(back)
        if delay > 0:
            self._not_before = time.monotonic() + delay

    async def close(self, *, last: bool = False) -> None:
        """Leave the session to the next one, or end it if this is the ``last``."""
        if self._task is not None:
            await end(self._task)
        connection, self._connection = self._connection, None
        self._forget()
        if connection is not None:
            await connection.close(0 if last and self._options.version == V5 else None)
