"""Requests: sent with a return address, and each reply handed to the one who waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from dragoman.client.addresses import Address, new_address, remove_orphans
from dragoman.client.contracts import Contracts
from dragoman.client.correlation import Correlation
from dragoman.client.headers import CORRELATION_ID, RAISED, REPLY_TO, GivenHeaders, headers_of, text_of
from dragoman.client.mailbox import Locate, Mailbox
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.pausing import Pauses
from dragoman.client.producer import Producer
from dragoman.client.refusal import refused
from dragoman.client.streams import Stream
from dragoman.core.broker import Broker, Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import (
    BrokerError,
    ClientError,
    DecodeError,
    EncodeError,
    IncompatibleSchema,
    RemoteFailure,
    ReplyTimeout,
    Unsupported,
)
from dragoman.core.message import Headers, Message, header, with_headers
from dragoman.schema.framing import unframe
from dragoman.schema.records import describe

R = TypeVar("R")

RETENTION = 3600.0
"""Seconds that unread replies are kept, should this process die before it can remove their channel."""


class Question(NamedTuple, Generic[R]):
    """One request. ``reply`` is the class of the answer, ``raises`` are the errors that may come instead."""

    producer: Producer[Any]
    value: object
    reply: type[R]
    timeout: float
    key: Any = None
    headers: GivenHeaders | None = None
    raises: Sequence[type[Exception]] = ()
    correlation: Correlation | None = None
    reply_to: str | None = None
    """A channel where the answer is known to come. Without it, one of this client's own."""


class One:
    """Waits for a single reply."""

    __slots__ = ("future",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.future: asyncio.Future[Message] = loop.create_future()

    def take(self, reply: Message) -> bool:
        if self.future.done():
            return False
        self.future.set_result(reply)
        return True

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Requester:
    """Sends requests and waits for their replies, on channels that only this client reads.

    The first is made with the first request, a new one every few hours, and each is removed when nobody waits
    on it any more.
    """

    def __init__(
        self,
        broker: Broker,
        contracts: Contracts,
        name: str,
        counters: ChannelMetrics,
        pauses: Pauses,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._broker = broker
        self._contracts = contracts
        self._name = name
        self._counters = counters
        self._pauses = pauses
        self._now = now
        self._numbers = itertools.count(1)
        self._token = secrets.token_hex(8)
        self._own: tuple[Address, Mailbox] | None = None
        self._worn_out: list[tuple[Address, Mailbox]] = []
        self._shared: dict[tuple[str, Correlation | None], Mailbox] = {}
        self._opening = asyncio.Lock()

    async def request(self, question: Question[R]) -> R:
        mailbox, number, pairs = await self._address(question)
        waiter = One(asyncio.get_running_loop())
        mailbox.waiting[number] = waiter
        answered = False
        try:
            async with asyncio.timeout(question.timeout):
                await question.producer.send(question.value, question.key, pairs)
                answer = await waiter.future
            answered = True
        except TimeoutError as error:
            raise _nobody(question, question.timeout) from error
        finally:
            mailbox.leave(number, answered)
        return await self._read(answer, question)

    async def stream(self, question: Question[R]) -> AsyncGenerator[R, None]:
        """The replies one by one, in order and each once. ``timeout`` counts anew for each."""
        mailbox, number, pairs = await self._address(question)
        waiter = mailbox.waiting[number] = Stream()
        try:
            async with asyncio.timeout(question.timeout):
                await question.producer.send(question.value, question.key, pairs)
            while (answer := await asyncio.wait_for(waiter.next(), question.timeout)) is not None:
                yield await self._read(answer, question)
        except TimeoutError as error:
            raise _nobody(question, question.timeout) from error
        finally:
            mailbox.leave(number, waiter.ended)

    async def _address(self, question: Question[Any]) -> tuple[Mailbox, bytes, Headers]:
        """Where the reply will come, under which number, and the headers that say so."""
        given = headers_of(question.headers) if question.headers else ()
        place = question.correlation
        if question.reply_to is not None:
            mailbox = await self._listen_on(question.reply_to, place)
            number, pairs = self._numbered(question, given)
            if number in mailbox.waiting:
                raise ClientError(
                    f"A request with the correlation {text_of(number)!r} is under way already.",
                    code="client.correlation",
                    next="Wait for its reply, or use another value.",
                    channel=question.producer.channel,
                )
            # For endpoints that answer to the return address, and so that declared errors come, too.
            return mailbox, number, with_headers(pairs, (REPLY_TO, question.reply_to.encode()))
        if place is not None:
            raise ClientError(
                "A correlation of one's own needs to know where the reply comes.",
                code="client.correlation",
                next="Name the channel: reply_to='...'; or leave it out, and the reply comes to us alone.",
            )
        own = self._own
        if own is None or own[0].worn_out(self._now()):
            own = await self._open()
        address, mailbox = own
        number = f"{address.token}-{next(self._numbers)}".encode()
        ours = ((CORRELATION_ID, number), (REPLY_TO, address.channel.encode()))
        return mailbox, number, with_headers(given, *ours) if given else ours

    def _numbered(self, question: Question[Any], given: Headers) -> tuple[bytes, Headers]:
        """A number in the place that requester and endpoint have agreed upon."""
        place = question.correlation
        if place is None or place.part == "header":
            name = CORRELATION_ID if place is None else place.header
            number = header(given, name) or f"{self._token}-{next(self._numbers)}".encode()
            return number, with_headers(given, (name, number))
        found = place.in_value(question.value)
        if found is None:
            raise EncodeError(
                f"The request has nothing at {place}.",
                code="message.correlation",
                channel=question.producer.channel,
            )
        return found, with_headers(given, (CORRELATION_ID, found))

    async def _open(self) -> tuple[Address, Mailbox]:
        async with self._opening:
            now = self._now()
            await self._remove_unused()
            if self._own is not None and not self._own[0].worn_out(now):
                return self._own
            if self._own is None:
                with contextlib.suppress(BrokerError):
                    await remove_orphans(self._broker, now)
            else:
                self._worn_out.append(self._own)
            address = new_address(self._name, now)
            await self._broker.create(Channel(address.channel, partitions=1, retention=RETENTION))
            durable = not self._broker.capabilities.temporary_groups
            wanted = Subscription((address.channel,), group=address.channel, durable=durable)
            mailbox = Mailbox(self._broker, wanted, self._counters, self._pauses)
            await mailbox.open()
            self._own = (address, mailbox)
            return self._own

    async def _listen_on(self, channel: str, place: Correlation | None) -> Mailbox:
        """A channel that others read too: a group of our own, gone with us, sees what comes from now on."""
        async with self._opening:
            found = self._shared.get((channel, place))
            if found is not None:
                return found
            if not self._broker.capabilities.temporary_groups:
                raise Unsupported(
                    "The broker has no groups that go with their member, so replies cannot be shared out.",
                    next="Leave reply_to out: the reply then comes to a channel of this client's own.",
                    channel=channel,
                )
            group = new_address(self._name, self._now()).channel
            wanted = Subscription((channel,), group=group, start="latest", durable=False)
            made = Mailbox(self._broker, wanted, self._counters, self._pauses, self._locator(place))
            await made.open()
            self._shared[channel, place] = made
            return made

    def _locator(self, place: Correlation | None) -> Locate:
        async def locate(message: Message) -> bytes | None:
            if place is None:
                return header(message.headers, CORRELATION_ID)
            if place.part == "header":
                return place.in_headers(message.headers)
            if header(message.headers, RAISED) is not None:
                # An error's payload has other fields than a reply's.
                return header(message.headers, CORRELATION_ID)
            if message.payload is None:
                return None
            schema_id, payload = unframe(message.payload)
            return place.in_value((await self._contracts.decoder(schema_id, None))(payload))

        return locate

    async def _read(self, answer: Message, question: Question[R]) -> R:
        headers = answer.headers
        if len(headers) > 1 or answer.payload is None:
            failure = refused(answer)
            if failure is not None:
                raise failure
            raised = header(headers, RAISED)
            if raised is not None:
                raise await self._raised(answer, text_of(raised), question)
        if answer.payload is None:
            raise DecodeError("The reply has no payload.", code="message.tombstone")
        value: R = await self._decode(answer.payload, question.reply)
        return value

    async def _raised(self, answer: Message, name: str, question: Question[Any]) -> Exception:
        """The error as the endpoint raised it, if the requester knows its class."""
        for cls in question.raises:
            if describe(cls).names.full == name and answer.payload is not None:
                error: Exception = await self._decode(answer.payload, cls)
                return error
        return RemoteFailure(
            f"The endpoint answered with the error {name}.",
            code="client.raised",
            next="Name its class in 'raises' to have it raised here.",
            error=name,
            channel=question.producer.channel,
        )

    async def _decode(self, frame: bytes, cls: type) -> Any:
        schema_id, _ = unframe(frame)
        try:
            decode = await self._contracts.frame_decoder(schema_id, cls)
        except IncompatibleSchema as error:
            raise DecodeError(
                f"The reply cannot be read as {cls.__qualname__}.",
                next="Ask for the class that the endpoint returns.",
                schema_id=schema_id,
            ) from error
        return decode(frame)

    async def _remove_unused(self) -> None:
        kept = [pair for pair in self._worn_out if pair[1].waiting]
        for address, mailbox in self._worn_out:
            if not mailbox.waiting:
                await self._remove(address, mailbox)
        self._worn_out = kept

    async def _remove(self, address: Address, mailbox: Mailbox) -> None:
        await mailbox.close()
        with contextlib.suppress(BrokerError):
            await self._broker.delete(address.channel)

    async def close(self) -> None:
        own, self._own = self._own, None
        for address, mailbox in (*self._worn_out, *((own,) if own else ())):
            await self._remove(address, mailbox)
        for mailbox in self._shared.values():
            await mailbox.close()
        self._shared.clear()


def _nobody(question: Question[Any], timeout: float) -> ReplyTimeout:
    return ReplyTimeout(
        f"Nobody answered within {timeout:g} seconds.",
        next="Does an endpoint with a return value run? Look at the dead letters of the channel.",
        channel=question.producer.channel,
    )
