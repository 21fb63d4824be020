"""Publishing: many messages on their way at once, each done when JetStream has confirmed it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from nats import errors as theirs
from nats.aio.client import Client
from nats.aio.msg import Msg

from dragoman.adapters.nats.channels import Channels, not_found
from dragoman.adapters.nats.connection import Link
from dragoman.adapters.nats.errors import Refused, ours
from dragoman.adapters.nats.wire import headers_of
from dragoman.core.errors import BrokerUnavailable
from dragoman.core.message import Message, Position

WINDOW = 1000
"""So many messages of one call wait for their confirmation at once."""


class NoStream(Exception):
    """Nobody keeps what is published to this subject."""


class Confirmations:
    """Where JetStream's answers arrive. What has none when the connection is lost fails at once."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._client: Client | None = None
        self._inbox = ""
        self._waiting: dict[str, tuple[asyncio.Future[int], str]] = {}
        self._number = 0
        self._opening = asyncio.Lock()
        link.on_broken(self._fail_all)
        link.on_denied(self._fail_denied)

    async def open(self) -> None:
        client = self._link.client
        if self._client is client:
            return
        async with self._opening:
            if self._client is not client:
                inbox = client.new_inbox()
                with ours():
                    await client.subscribe(f"{inbox}.*", cb=self._confirm)
                self._client, self._inbox = client, inbox

    async def send(self, subject: str, payload: bytes, headers: dict[str, str] | None) -> asyncio.Future[int]:
        """The sequence number that the message gets, once it has it."""
        self._number += 1
        key = str(self._number)
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[key] = future, subject
        try:
            await self._link.client.publish(subject, payload, f"{self._inbox}.{key}", headers)
        except BaseException:
            self._waiting.pop(key, None)
            raise
        return future

    async def _confirm(self, message: Msg) -> None:
        future, _ = self._waiting.pop(message.subject.rpartition(".")[2], (None, ""))
        if future is None or future.done():
            return
        if not message.data:
            future.set_exception(NoStream())
            return
        found = json.loads(message.data)
        if "error" in found:
            future.set_exception(Refused(found["error"]))
        else:
            future.set_result(found["seq"])

    def _fail_all(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for future, _ in waiting.values():
            if not future.done():
                future.set_exception(theirs.StaleConnectionError())

    def _fail_denied(self, text: str) -> None:
        for key, (future, subject) in list(self._waiting.items()):
            if f'"{subject.lower()}"' in text:
                del self._waiting[key]
                if not future.done():
                    future.set_exception(theirs.Error(text))


class Publisher:
    def __init__(self, link: Link, channels: Channels) -> None:
        self._link = link
        self._channels = channels
        self._confirmations = Confirmations(link)
        self._order = asyncio.Lock()

    async def publish(self, messages: Sequence[Message]) -> list[Position]:
        await self._confirmations.open()
        positions: list[Position | None] = [None] * len(messages)
        open_now = list(range(len(messages)))
        for _ in range(3):
            for start in range(0, len(open_now), WINDOW):
                await self._publish_some(messages, open_now[start : start + WINDOW], positions)
            open_now = [index for index in open_now if positions[index] is None]
            if not open_now:
                return [position for position in positions if position is not None]
            # A partition that was there is gone: the channel was deleted, and may be there again.
            for name in {messages[index].channel for index in open_now}:
                self._channels.forget(name)
                await self._channels.known(name)
        raise not_found(messages[open_now[0]].channel)

    async def _publish_some(
        self, messages: Sequence[Message], indexes: Sequence[int], positions: list[Position | None]
    ) -> None:
        sent: list[tuple[int, int, asyncio.Future[int]]] = []
        try:
            # One call after the other: messages of one key keep their order.
            async with self._order:
                for index in indexes:
                    message = messages[index]
                    partition = await self._partition(message)
                    subject = self._link.names.subject(message.channel, partition)
                    with ours(channel=message.channel):
                        future = await self._confirmations.send(
                            subject, message.payload or b"", headers_of(message)
                        )
                    sent.append((index, partition, future))
            await self._confirmed(messages, sent, positions)
        finally:
            for _, _, future in sent:
                if not future.done():
                    future.cancel()
                elif not future.cancelled():
                    future.exception()

    async def _partition(self, message: Message) -> int:
        known = await self._channels.known(message.channel)
        if (message.partition or 0) >= known.channel.partitions:
            self._channels.forget(message.channel)
            known = await self._channels.known(message.channel)
        return known.partitioner.choose(message, known.channel.partitions)

    async def _confirmed(
        self,
        messages: Sequence[Message],
        sent: Sequence[tuple[int, int, asyncio.Future[int]]],
        positions: list[Position | None],
    ) -> None:
        _, late = await asyncio.wait([future for _, _, future in sent], timeout=self._link.options.timeout)
        if late:
            raise BrokerUnavailable(
                f"NATS has not confirmed {len(late)} of {len(sent)} messages.",
                next="They may be delivered nonetheless. Publish them again.",
                channel=messages[sent[0][0]].channel,
            )
        for index, partition, future in sent:
            channel = messages[index].channel
            try:
                with ours(channel=channel):
                    positions[index] = Position(channel, partition, future.result() - 1)
            except NoStream:
                continue

    async def keep(self, subject: str, payload: bytes, headers: dict[str, str] | None) -> int:
        """Publish one message to a stream that is no channel. Raises ``NoStream``."""
        await self._confirmations.open()
        with ours():
            future = await self._confirmations.send(subject, payload, headers)
            async with asyncio.timeout(self._link.options.timeout):
                return await future
