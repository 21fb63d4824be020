"""A producer: one record class to one channel, its encoder compiled, its schema id known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Generic, TypeVar

from dragoman.client.arguments import at_least, require
from dragoman.client.contracts import Bound, Contracts
from dragoman.client.headers import GivenHeaders, expiring, headers_of, named
from dragoman.client.keys import plain_key
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.pausing import clock_of
from dragoman.client.role import Sending
from dragoman.client.sequence.parts import PART, cut
from dragoman.client.transactional.brokered import gather
from dragoman.client.transactional.identity import needs_ids
from dragoman.core.broker import Broker
from dragoman.core.errors import ClientError, EncodeError, Unsupported
from dragoman.core.message import Headers, Message, Position, with_headers
from dragoman.core.run import Alike
from dragoman.schema.records import is_record

T = TypeVar("T")
R = TypeVar("R")


class Producer(Generic[T]):
    """Publishes values of one class to one channel. Safe for many tasks of one event loop.

    Nothing is asked of the registry any more: only the key of a class not seen before needs it.
    """

    __slots__ = (
        "_bound",
        "_broker",
        "_check_headers",
        "_contracts",
        "_counters",
        "_encode",
        "_expires_in",
        "_in_parts",
        "_key_encoders",
        "_loop",
        "_needs_ids",
        "channel",
    )

    def __init__(
        self,
        channel: str,
        bound: Bound,
        broker: Broker,
        contracts: Contracts,
        counters: ChannelMetrics,
        sending: Sending = Sending(),
    ) -> None:
        self.channel = channel
        self._expires_in, self._in_parts, self._check_headers, is_named = sending
        self._bound = bound
        self._encode = bound.encode
        self._broker = broker
        self._contracts = contracts
        self._counters = counters
        self._needs_ids = is_named or needs_ids(broker)
        self._loop = asyncio.get_running_loop()
        self._key_encoders: dict[type, Callable[[Any], bytes | None]] = {
            type(None): plain_key,
            bytes: plain_key,
            str: str.encode,
        }

    @property
    def schema_id(self) -> int:
        return self._bound.schema_id

    async def publish(
        self,
        value: T | None,
        *,
        key: Any = None,
        headers: GivenHeaders | None = None,
        partition: int | None = None,
        delay: float = 0.0,
        expires_in: float | None = None,
    ) -> Position | None:
        """Validate, encode, frame and publish; returns once the broker has it.

        ``key`` is ``str``, ``bytes``, ``int`` or a record. ``value`` ``None`` is a tombstone. ``delay`` and
        ``expires_in`` are in seconds. Raises ``EncodeError``, ``ConstraintViolated``, ``BrokerError``.
        """
        if delay:
            self._check_delay(delay)
        pairs = self._expiring(headers_of(headers) if headers else (), expires_in)
        message = await self._message(value, key, pairs, partition)
        if self._in_parts and value is not None:
            return (await self._publish_parts(message, PART, delay))[-1]
        if gather((message,)):
            self._counters.published += 1
            return None
        positions = await self._broker.publish((message,), delay)
        self._counters.published += 1
        return positions[0]

    async def send(self, value: T | None, key: Any, pairs: Headers) -> None:
        """``publish`` with headers that are known to be well formed, at once, whatever is under way."""
        if self._expires_in is not None:
            pairs = self._expiring(pairs, None)
        message = await self._message(value, key, pairs, None)
        for each in cut(message, PART) if self._in_parts else (message,):
            await self._broker.publish((each,))
        self._counters.published += 1

    async def _message(self, value: T | None, key: Any, pairs: Headers, partition: int | None) -> Message:
        if type(key) not in self._key_encoders:
            await self._learn_key(type(key))
        raw_key = self._key_encoders[type(key)](key)
        payload = None if value is None else self._encode(value)
        return Message(self.channel, payload, raw_key, self._complete(pairs, value is None), partition)

    def _complete(self, pairs: Headers, is_tombstone: bool = False) -> Headers:
        """With what the client adds to the headers of one message, and checked then."""
        if self._needs_ids:
            pairs = named(pairs)
        if self._check_headers is not None and not is_tombstone:
            self._check_headers(pairs)
        return pairs

    async def publish_many(
        self,
        values: Iterable[T],
        *,
        key: Callable[[T], Any] | None = None,
        headers: GivenHeaders | None = None,
        partition: int | None = None,
        delay: float = 0.0,
    ) -> Sequence[Position | None]:
        """Publish in order and in one go. All values are encoded first: a bad one stops all of them."""
        if delay:
            self._check_delay(delay)
        channel, encode, pairs = self.channel, self._encode, self._expiring(headers_of(headers), None)
        if not self._needs_ids:
            pairs = self._complete(pairs)
        messages: Sequence[Message]
        if key is None:
            messages = Alike(channel, list(map(encode, values)), pairs, partition)
        else:
            keyed = [(key(value), value) for value in values]
            for cls in {type(each) for each, _ in keyed} - self._key_encoders.keys():
                await self._learn_key(cls)
            keys = self._key_encoders
            messages = [
                Message(channel, encode(value), keys[type(each)](each), pairs, partition)
                for each, value in keyed
            ]
        if self._needs_ids:
            messages = [each._replace(headers=self._complete(each.headers)) for each in messages]
        if self._in_parts:
            return [(await self._publish_parts(each, PART, delay))[-1] for each in messages]
        if gather(messages):
            self._counters.published += len(messages)
            return [None] * len(messages)
        positions = await self._broker.publish(messages, delay)
        self._counters.published += len(messages)
        return positions

    async def publish_in_parts(
        self, value: T, *, key: Any = None, headers: GivenHeaders | None = None, part_size: int = PART
    ) -> Sequence[Position | None]:
        """Publish a value that is too large for one message: in parts of so many bytes.

        Whoever handles it is given the whole. All parts have the key, or one of their own without it.
        """
        pairs = self._expiring(headers_of(headers), None)
        return await self._publish_parts(await self._message(value, key, pairs, None), part_size, 0.0)

    async def _publish_parts(self, whole: Message, size: int, delay: float) -> Sequence[Position | None]:
        parts = cut(whole, size)
        if gather(parts):
            positions: list[Position | None] = [None] * len(parts)
        else:
            # One by one: all of them at once may be more than the broker takes.
            positions = [
                position for part in parts for position in await self._broker.publish((part,), delay)
            ]
        self._counters.published += 1
        return positions

    def publish_blocking(self, value: T | None, **more: Any) -> Position | None:
        """The same as ``publish``, from a thread: for endpoints that are a plain ``def``."""
        return in_thread(self._loop, self.publish(value, **more))

    def publish_many_blocking(self, values: Iterable[T], **more: Any) -> Sequence[Position | None]:
        """The same as ``publish_many``, from a thread."""
        return in_thread(self._loop, self.publish_many(values, **more))

    def _expiring(self, pairs: Headers, seconds: float | None) -> Headers:
        seconds = self._expires_in if seconds is None else seconds
        if seconds is None:
            return pairs
        require("The option expires_in", seconds, int, float)
        return with_headers(pairs, expiring(clock_of(self._broker).now() + seconds))

    def _check_delay(self, delay: float) -> None:
        at_least("delay", delay, 0)
        if not self._broker.capabilities.delayed_delivery:
            raise Unsupported(
                "The broker cannot deliver later.",
                next="Publish without a delay, or when it is time.",
                channel=self.channel,
            )

    async def _learn_key(self, cls: type) -> None:
        """How keys of this class are written: a record under the channel's key contract."""
        if is_record(cls):
            self._key_encoders[cls] = (await self._contracts.bind(self.channel, cls, key=True)).encode
        else:
            self._key_encoders[cls] = plain_key


def in_thread(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, R]) -> R:
    """Have the client's event loop do it, and wait. Inside the loop that would wait for ever."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop:
        work.close()
        raise ClientError(
            "This would block the event loop that has to do the work.",
            code="client.blocking",
            next="Use 'await producer.publish(...)' in asynchronous code.",
        )
    return asyncio.run_coroutine_threadsafe(work, loop).result()


def require_record(channel: str, value: object) -> type:
    """The class of a value that is to be published."""
    if is_record(type(value)):
        return type(value)
    raise no_record(channel, type(value))


def no_record(channel: str, cls: Any) -> EncodeError:
    return EncodeError(
        f"{getattr(cls, '__qualname__', cls)} is not a record class.",
        code="message.encode.class",
        next="Decorate the class with @record, or publish a dataclass, pydantic model or msgspec struct.",
        channel=channel,
    )
