"""Messages that are not due yet: in a stream of their own, handed back to it until their time has come."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from nats import errors as theirs
from nats.aio.msg import Msg

from dragoman.adapters.nats.channels import Channels
from dragoman.adapters.nats.connection import Link
from dragoman.adapters.nats.errors import Refused, ours
from dragoman.adapters.nats.publisher import NoStream, Publisher
from dragoman.adapters.nats.wire import DUE, MESSAGE_ID, PARTITION, headers_of, message_of
from dragoman.core.message import Message

AT_ONCE = 50
SECOND = 1_000_000_000
LOOK_AGAIN = 1.0


class Delayed:
    """One consumer per channel, shared by all processes: each message is moved by one of them.

    A mover that dies before it has confirmed is followed by another, and the message's id tells JetStream
    that it has it already.
    """

    def __init__(self, link: Link, channels: Channels, publisher: Publisher) -> None:
        self._link = link
        self._channels = channels
        self._publisher = publisher
        self._none_until: dict[str, float] = {}

    async def postpone(self, messages: Sequence[Message], due: float) -> None:
        for name in {message.channel for message in messages}:
            await self._make_mover(name)
        for message in messages:
            known = await self._channels.known(message.channel)
            known.partitioner.choose(message, known.channel.partitions)
            headers = (headers_of(message) or {}) | {DUE: str(int(due * 1000))}
            if message.partition is not None:
                headers[PARTITION] = str(message.partition)
            subject = self._link.names.delayed_subject(message.channel)
            await self._publisher.keep(subject, message.payload or b"", headers)
            self._none_until.pop(message.channel, None)

    async def _make_mover(self, name: str) -> None:
        await self._channels.known(name)
        stream, durable = self._link.names.delayed, self._link.names.mover(name)
        with ours(channel=name):
            await self._link.make_stream(
                stream,
                subjects=[f"{stream}.*"],
                description="Messages of Dragoman that are not due yet.",
                retention="workqueue",
                storage="file",
                num_replicas=self._link.options.replicas,
            )
            await self._link.request(
                f"CONSUMER.DURABLE.CREATE.{stream}.{durable}",
                stream_name=stream,
                config={
                    "durable_name": durable,
                    "filter_subject": self._link.names.delayed_subject(name),
                    "deliver_policy": "all",
                    "ack_policy": "explicit",
                    "ack_wait": 30 * SECOND,
                    "max_deliver": -1,
                    "max_ack_pending": -1,
                    "replay_policy": "instant",
                },
            )

    async def bring_in(self, name: str) -> float | None:
        """Move what is due. The next time to look, or nothing if no message waits."""
        if self._none_until.get(name, 0.0) > time.monotonic():
            return None
        earliest: float | None = None
        while await self._waiting(name) and (batch := await self._fetch(name)):
            for message in batch:
                due = await self._move(name, message)
                if due is not None and (earliest is None or due < earliest):
                    earliest = due
        if earliest is None:
            self._none_until[name] = time.monotonic() + LOOK_AGAIN
        return earliest

    async def _waiting(self, name: str) -> bool:
        stream, durable = self._link.names.delayed, self._link.names.mover(name)
        with ours(channel=name):
            try:
                info = await self._link.request(f"CONSUMER.INFO.{stream}.{durable}")
            except Refused as refused:
                if refused.number in (Refused.STREAM_NOT_FOUND, Refused.CONSUMER_NOT_FOUND):
                    return False
                raise
        return bool(info["num_pending"] + info["num_ack_pending"])

    async def _fetch(self, name: str) -> list[Msg]:
        """Those that are not handed out, or whose time has come."""
        client = self._link.client
        found: list[Msg] = []
        with ours(channel=name):
            inbox = client.new_inbox()
            answers = await client.subscribe(inbox)
            try:
                stream, durable = self._link.names.delayed, self._link.names.mover(name)
                await client.publish(
                    self._link.subject(f"CONSUMER.MSG.NEXT.{stream}.{durable}"),
                    json.dumps({"batch": AT_ONCE, "no_wait": True}).encode(),
                    inbox,
                )
                while len(found) < AT_ONCE:
                    message = await answers.next_msg(self._link.options.timeout)
                    if not message.reply.startswith("$JS.ACK."):
                        break
                    found.append(message)
            finally:
                if self._link.connected:
                    await answers.unsubscribe()
        return found

    async def _move(self, name: str, message: Msg) -> float | None:
        """To its partition, if it is due; otherwise back, to come again when it is."""
        headers = dict(message.headers or {})
        due = int(headers.pop(DUE, "0")) / 1000
        remaining = due - time.time()
        with ours(channel=name):
            if remaining > 0:
                await message.nak(delay=remaining)
                return due
            known = await self._channels.known(name)
            wanted = headers.pop(PARTITION, None)
            partition = 0 if wanted is None else int(wanted)
            if wanted is None:
                partition = known.partitioner.choose(self._keyed(name, headers), known.channel.partitions)
            headers.setdefault(MESSAGE_ID, f"delayed-{message.metadata.sequence.stream}")
            try:
                await self._publisher.keep(self._link.names.subject(name, partition), message.data, headers)
            except NoStream:
                return None
            try:
                await message.ack_sync(timeout=self._link.options.timeout)
            except (theirs.TimeoutError, Refused):
                return None
        return None

    @staticmethod
    def _keyed(name: str, headers: dict[str, str]) -> Message:
        return message_of(name, 0, 1, 0, b"", headers)
