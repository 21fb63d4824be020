"""The broker's connection for itself: it watches topics of the administration, and comes back when lost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from uuid import uuid4

from dragoman.adapters.mqtt import wire
from dragoman.adapters.mqtt.connection import Connection, Outgoing, open_connection
from dragoman.adapters.mqtt.options import Options
from dragoman.adapters.mqtt.saving import Saver
from dragoman.adapters.mqtt.wire import V5, Connect, Incoming, Property, Will
from dragoman.core.backoff import Backoff
from dragoman.core.ending import end
from dragoman.core.errors import BrokerUnavailable, DragomanError

REST = Backoff(0.05, 2.0)

Tell = Callable[[str, bytes], None]
Forget = Callable[[], None]


def _matches(filter: str, topic: str) -> bool:
    if filter == topic:
        return True
    wanted, found = filter.split("/"), topic.split("/")
    return len(wanted) == len(found) and all(
        left in ("+", right) for left, right in zip(wanted, found, strict=True)
    )


def _nothing() -> None:
    """For watchers that remember nothing."""


class Control:
    """Messages on watched topics are told to their watchers, the retained ones first.

    After a reconnection all watched topics are told anew, and what was known before is to be forgotten.
    """

    def __init__(self, options: Options, will: Will | None) -> None:
        self._options = options
        self._will = will
        self._client = f"{options.prefix}-{uuid4().hex}"
        self._probe = f"{options.prefix}/probes/{self._client}"
        self._probes: dict[bytes, asyncio.Future[None]] = {}
        self._numbers = itertools.count(1)
        self._watched: dict[str, dict[object, tuple[Tell, Forget]]] = {}
        self._watched[self._probe] = {self: (self._probed, _nothing)}
        self._connection: Connection | None = None
        self._saver: Saver | None = None
        self._connected = asyncio.Event()
        self._returning: asyncio.Task[None] | None = None
        self._closed = True
        """Nothing is to come back by itself: not yet, or not any more."""

    async def open(self) -> None:
        self._connection = connection = await open_connection(
            self._options, self._greeting(), self._told, self._lost
        )
        self._saver = Saver(self._options, connection)
        try:
            for filter in list(self._watched):
                await connection.subscribe(filter, 1)
            if connection.ended is not None:
                # Lost with the last answer: nobody else would notice.
                raise connection.ended
        except DragomanError:
            connection.abort()
            raise
        self._connected.set()
        self._closed = False

    def _greeting(self) -> Connect:
        options = self._options
        return Connect(self._client, True, options.keep_alive, options.username, options.password, self._will)

    @property
    def connected(self) -> bool:
        return self._connected.is_set()

    def _told(self, incoming: Incoming) -> None:
        if incoming.qos and self._connection is not None and self._connection.ended is None:
            self._connection.acknowledge([(incoming.packet, incoming.qos)])
        for filter, watchers in list(self._watched.items()):
            if _matches(filter, incoming.topic):
                for tell, _ in list(watchers.values()):
                    tell(incoming.topic, incoming.payload)

    def _probed(self, topic: str, payload: bytes) -> None:
        waiter = self._probes.pop(payload, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _lost(self, error: DragomanError) -> None:
        self._connected.clear()
        for waiter in self._probes.values():
            if not waiter.done():
                waiter.set_exception(error)
                waiter.exception()
        self._probes.clear()
        if not self._closed and (self._returning is None or self._returning.done()):
            self._returning = asyncio.get_running_loop().create_task(self._return())

    async def _return(self) -> None:
        for wait_s in REST.waits_s():
            await asyncio.sleep(wait_s)
            if self._closed:
                return
            for watchers in self._watched.values():
                for _, forget in watchers.values():
                    forget()
            with contextlib.suppress(DragomanError):
                await self.open()
                return

    async def _ready(self) -> Connection:
        """The connection, waited for as long as an answer may take."""
        try:
            async with asyncio.timeout(self._options.timeout):
                await self._connected.wait()
        except TimeoutError as error:
            raise BrokerUnavailable(
                "The MQTT server is away.",
                next="It is tried again.",
                server=f"{self._options.host}:{self._options.port}",
            ) from error
        assert self._connection is not None
        return self._connection

    async def watch(self, filter: str, owner: object, tell: Tell, forget: Forget = _nothing) -> None:
        """``filter`` may have ``+`` for any level. What is retained there is told at once."""
        self._watched.setdefault(filter, {})[owner] = tell, forget
        await (await self._ready()).subscribe(filter, 1)

    async def unwatch(self, filter: str, owner: object) -> None:
        watchers = self._watched.get(filter, {})
        watchers.pop(owner, None)
        if not watchers and self._watched.pop(filter, None) is not None and self.connected:
            with contextlib.suppress(DragomanError):
                await (await self._ready()).unsubscribe(filter)

    async def sync(self) -> None:
        """All that others had told the server before this call was told to the watchers."""
        connection = await self._ready()
        number = b"%d" % next(self._numbers)
        self._probes[number] = arrived = asyncio.get_running_loop().create_future()
        try:
            await connection.publish([self._message(self._probe, number, False, None, 1)])
            async with asyncio.timeout(self._options.timeout):
                await arrived
        except TimeoutError as error:
            raise BrokerUnavailable("The MQTT server is slow.", next="It is tried again.") from error
        finally:
            self._probes.pop(number, None)

    async def put(self, topic: str, payload: bytes, expiry: int | None = None, *, safe: bool = True) -> None:
        """Keep this as the topic's retained message; nothing clears it. ``safe``: saved when this returns."""
        connection, saver = await self._ready(), self._saver
        await connection.publish([self._message(topic, payload, True, expiry, 1)])
        if safe and self._options.confirm == "saved":
            assert saver is not None
            await asyncio.shield(saver.ask())

    async def tell(self, topic: str, payload: bytes) -> None:
        """For whoever listens now."""
        if self._connected.is_set() and self._connection is not None:
            await self._connection.publish([self._message(topic, payload, False, None, 0)])

    def _message(self, topic: str, payload: bytes, retain: bool, expiry: int | None, qos: int) -> Outgoing:
        extra = b""
        if self._options.version == V5:
            extra = wire.properties({} if expiry is None else {Property.MESSAGE_EXPIRY: expiry})
        return Outgoing(wire.text(topic), payload, qos, retain, extra)

    async def close(self) -> None:
        self._closed = True
        self._connected.clear()
        if self._returning is not None:
            await end(self._returning)
        if self._connection is not None:
            await self._connection.close()
