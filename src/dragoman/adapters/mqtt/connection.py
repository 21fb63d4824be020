"""One connection to an MQTT server: packets out, packets in, and who waits for which."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from dragoman.adapters.mqtt import wire
from dragoman.adapters.mqtt.options import Options
from dragoman.adapters.mqtt.reasons import error_of, is_failure
from dragoman.adapters.mqtt.wire import Connect, Incoming, Kind, Malformed, Property
from dragoman.core.errors import AccessRefused, BrokerUnavailable, DragomanError, EncodeError

T = TypeVar("T")

FLUSH = 64 * 1024
"""So many bytes are collected before they go to the system."""
LAST_PACKET = 0xFFFF
GOODBYE = 2.0
"""Seconds that the server may take to hang up."""


class Outgoing(NamedTuple):
    """``topic`` and ``extra`` as they go over the wire: see ``wire.publish``."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    extra: bytes


class _Batch:
    """Some messages that were sent together; done when the server has answered for each."""

    __slots__ = ("done", "error", "open", "sealed")

    def __init__(self, done: asyncio.Future[None]) -> None:
        self.done = done
        self.open = 0
        self.sealed = False
        self.error: DragomanError | None = None

    def settle(self) -> None:
        if self.sealed and not self.open and not self.done.done():
            if self.error is None:
                self.done.set_result(None)
            else:
                self.done.set_exception(self.error)


class Connection(asyncio.Protocol):
    """``on_publish`` is called for each message that comes, ``on_lost`` once, when it is over.

    Nothing is acknowledged but by ``acknowledge``. Made by ``open_connection``.
    """

    def __init__(
        self,
        options: Options,
        on_publish: Callable[[Incoming], None],
        on_lost: Callable[[DragomanError], None],
    ) -> None:
        self.resumed = False
        """The server kept the session from last time."""
        self.ended: DragomanError | None = None
        self._version = options.version
        self._timeout = options.timeout
        self._place = f"{options.host}:{options.port}"
        self._on_publish = on_publish
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._welcome: asyncio.Future[wire.Connack] = self._loop.create_future()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._sent: dict[int, _Batch] = {}
        self._asked: dict[int, asyncio.Future[wire.Answer]] = {}
        self._pings: deque[asyncio.Future[None]] = deque()
        self._room: deque[asyncio.Future[None]] = deque()
        self._paused = False
        self._last_packet = 0
        self._quota = LAST_PACKET - 1000
        self._largest = wire.LONGEST
        self._keep_alive = float(options.keep_alive)
        self._heard = self._confirmed_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._make_room()

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        self._buffer += data
        try:
            for packet in wire.split(self._buffer):
                self._handle(packet)
        except Malformed as error:
            self._end(BrokerUnavailable(f"The server's answer is not MQTT: {error}.", server=self._place))

    def connection_lost(self, error: Exception | None) -> None:
        if not self._over.done():
            self._over.set_result(None)
        why = f": {error}" if error else ""
        self._end(
            BrokerUnavailable(f"The connection is lost{why}.", next="It is opened again.", server=self._place)
        )

    async def greet(self, wanted: Connect) -> None:
        self.write(wire.connect(wanted, self._version))
        answer = await self._in_time(self._welcome)
        if answer.reason:
            error = error_of(answer.reason, self._version, server=self._place)
            self._end(error)
            raise error
        self.resumed = answer.resumed
        self._heed(answer)
        self._watch()

    def _heed(self, answer: wire.Connack) -> None:
        """The limits that the server names."""

        def limit(name: Property, default: float) -> int:
            return int(answer.values.get(name, default))

        self._quota = min(self._quota, limit(Property.RECEIVE_MAXIMUM, self._quota))
        self._largest = limit(Property.MAXIMUM_PACKET_SIZE, self._largest)
        self._keep_alive = float(limit(Property.SERVER_KEEP_ALIVE, self._keep_alive))

    async def publish(self, messages: Iterable[Outgoing]) -> None:
        """Returns when the server has taken all of them; raises if it refused one, or if it is gone."""
        await (await self.send(messages))

    async def send(self, messages: Iterable[Outgoing]) -> asyncio.Future[None]:
        """Returns when they are on their way. What comes of them is told by the future, as by ``publish``."""
        batch = _Batch(self._loop.create_future())
        pending = bytearray()
        try:
            for topic, payload, qos, retain, extra in messages:
                while self._paused or len(self._sent) >= self._quota:
                    self._flush(pending)
                    await self._wait_for_room()
                number = self._number() if qos else 0
                packet = wire.publish(topic, payload, qos, retain, number, extra)
                if len(packet) > self._largest:
                    raise EncodeError(
                        f"The message has {len(packet):,} bytes, the server takes {self._largest:,}.",
                        code="message.too-large",
                        next="Send less, or raise the server's limit.",
                    )
                if qos:
                    if not self._sent:
                        self._confirmed_at = self._loop.time()
                    batch.open += 1
                    self._sent[number] = batch
                pending += packet
                if len(pending) >= FLUSH:
                    self._flush(pending)
        except BaseException:
            # Those before the one at fault have numbers, which only the server's answer makes free again.
            with contextlib.suppress(DragomanError):
                self._flush(pending)
            raise
        self._flush(pending)
        batch.sealed = True
        batch.settle()
        return batch.done

    def _flush(self, pending: bytearray) -> None:
        if pending:
            self.write(bytes(pending))
            pending.clear()
        elif self.ended is not None:
            raise self.ended

    async def subscribe(self, topic: str, qos: int, *, only_new: bool = False) -> None:
        number = self._number()
        answer = await self._ask(number, wire.subscribe(number, topic, qos, self._version, only_new=only_new))
        for reason in answer.reasons:
            if is_failure(reason):
                raise error_of(reason, self._version, answer.text, topic=topic)

    async def unsubscribe(self, topic: str) -> None:
        number = self._number()
        await self._ask(number, wire.unsubscribe(number, topic, self._version))

    async def round_trip(self) -> None:
        """The server has dealt with all that was sent before."""
        await self._in_time(self.ping())

    def acknowledge(self, incoming: Iterable[tuple[int, int]]) -> None:
        """Packets and their quality of service, in the order in which they came."""
        self.write(
            b"".join(
                wire.acknowledge(Kind.PUBREC if qos == 2 else Kind.PUBACK, packet) for packet, qos in incoming
            )
        )

    async def close(self, session_expiry: int | None = None) -> None:
        """Say goodbye. The session stays as long as was agreed, or ``session_expiry`` seconds."""
        self._on_lost = self._on_publish = _nobody
        if self.ended is None and self._transport is not None:
            self._transport.write(wire.disconnect(self._version, session_expiry))
            # The server hangs up when it has read all. To hang up first could throw away what it has not.
            await asyncio.wait((self._over,), timeout=GOODBYE)
        self._end(BrokerUnavailable("The connection is closed.", next="Open it again."))

    def abort(self) -> None:
        """Gone without a word: the will is published."""
        self._end(BrokerUnavailable("The connection is given up.", next="It is opened again."))

    def write(self, data: bytes) -> None:
        """Packets that nobody waits to have answered."""
        if self.ended is not None:
            raise self.ended
        assert self._transport is not None
        self._transport.write(data)

    def _number(self) -> int:
        """The next packet number that is not in use."""
        while True:
            self._last_packet = self._last_packet % LAST_PACKET + 1
            if self._last_packet not in self._sent and self._last_packet not in self._asked:
                return self._last_packet

    async def _ask(self, number: int, packet: bytes) -> wire.Answer:
        self.write(packet)
        self._asked[number] = asked = self._loop.create_future()
        try:
            return await self._in_time(asked)
        finally:
            self._asked.pop(number, None)

    async def _in_time(self, answer: asyncio.Future[T]) -> T:
        try:
            async with asyncio.timeout(self._timeout):
                return await answer
        except TimeoutError as error:
            late = BrokerUnavailable(
                f"The server did not answer within {self._timeout:g} seconds.",
                next="It is tried again.",
                server=self._place,
            )
            self._end(late)
            raise late from error

    def ping(self) -> asyncio.Future[None]:
        """Answered when the server has read all that was sent before."""
        self.write(wire.PINGREQ)
        done: asyncio.Future[None] = self._loop.create_future()
        self._pings.append(done)
        return done

    def _watch(self) -> None:
        """Send a sign of life now and then; take the server for dead if it gives none."""
        if self.ended is not None:
            return
        since = self._loop.time() - 1.5 * self._keep_alive
        if self._heard < since:
            self._end(BrokerUnavailable("The server is silent.", next="Is it alive?", server=self._place))
            return
        if self._sent and self._confirmed_at < since:
            self._end(
                BrokerUnavailable(
                    "The server confirms no messages.", next="They are to be sent again.", server=self._place
                )
            )
            return
        self.ping()
        self._timer = self._loop.call_later(self._keep_alive / 2, self._watch)

    async def _wait_for_room(self) -> None:
        if self.ended is not None:
            raise self.ended
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._room.append(waiter)
        await waiter

    def _make_room(self) -> None:
        while self._room:
            waiter = self._room.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def _handle(self, packet: wire.Packet) -> None:
        kind, flags, body = packet
        match kind:
            case Kind.PUBLISH:
                self._on_publish(wire.read_publish(flags, body, self._version))
            case Kind.PUBACK | Kind.PUBCOMP | Kind.PUBREC:
                self._confirmed(kind, wire.read_answer(kind, body, self._version))
            case Kind.PUBREL:
                # Its message was handled before we sent PUBREC, so nothing is left to do.
                number = wire.read_answer(kind, body, self._version).packet
                self.write(wire.acknowledge(Kind.PUBCOMP, number))
            case Kind.SUBACK | Kind.UNSUBACK:
                answer = wire.read_answer(kind, body, self._version)
                if (asked := self._asked.get(answer.packet)) is not None and not asked.done():
                    asked.set_result(answer)
            case Kind.PINGRESP:
                if self._pings and not (done := self._pings.popleft()).done():
                    done.set_result(None)
            case Kind.CONNACK:
                if not self._welcome.done():
                    self._welcome.set_result(wire.read_connack(body, self._version))
            case Kind.DISCONNECT:
                self._end(error_of(wire.read_disconnect(body), self._version, server=self._place))
            case _:
                raise Malformed(f"a packet of kind {kind}")

    def _confirmed(self, kind: int, answer: wire.Answer) -> None:
        [reason] = answer.reasons
        batch = self._sent.get(answer.packet)
        if batch is None:
            return
        if kind == Kind.PUBREC and not is_failure(reason):
            self.write(wire.acknowledge(Kind.PUBREL, answer.packet))
            return
        del self._sent[answer.packet]
        self._confirmed_at = self._loop.time()
        if is_failure(reason):
            batch.error = error_of(reason, self._version, answer.text)
        batch.open -= 1
        batch.settle()
        if self._room and not self._paused:
            self._make_room()

    def _end(self, error: DragomanError) -> None:
        if self.ended is not None:
            return
        self.ended = error
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        waiting: list[asyncio.Future[Any]] = [*self._pings, *self._room, *self._asked.values(), self._welcome]
        waiting += [batch.done for batch in set(self._sent.values())]
        for each in waiting:
            if not each.done():
                each.set_exception(error)
                # Not everybody who could wait does.
                each.exception()
        self._sent.clear()
        self._on_lost(error)


def _nobody(_: object) -> None:
    """Who closed it knows."""


async def open_connection(
    options: Options,
    wanted: Connect,
    on_publish: Callable[[Incoming], None],
    on_lost: Callable[[DragomanError], None],
) -> Connection:
    """Raises ``BrokerUnavailable``, ``AccessRefused`` or ``ConfigurationError``."""
    where = f"{options.host}:{options.port}"
    connection = Connection(options, on_publish, on_lost)
    try:
        async with asyncio.timeout(options.timeout):
            await asyncio.get_running_loop().create_connection(
                lambda: connection, options.host, options.port, ssl=options.context
            )
    except ssl.SSLError as error:
        raise AccessRefused(
            f"There is no trust between server and client: {error.reason or error}.",
            next="Check tls, ca, certificate and private_key.",
            server=where,
        ) from error
    except (OSError, TimeoutError, UnicodeError) as error:
        # The last one for a name that no host can have.
        raise BrokerUnavailable(
            f"No MQTT server answers: {error or 'it took too long'}.",
            next="Is it running, and is the port right?",
            server=where,
        ) from error
    try:
        await connection.greet(wanted)
    except BaseException:
        with contextlib.suppress(DragomanError):
            connection.abort()
        raise
    return connection
