"""Reading one partition from an offset on, a little ahead of what is asked for."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from dragoman.adapters.nats.connection import Link
from dragoman.adapters.nats.errors import ours
from dragoman.adapters.nats.wire import message_of
from dragoman.core.message import Message

AHEAD = 500
"""So many messages are asked for at once."""
LEAST_BYTES = 8 << 20
"""So many bytes may come at once; more where a single message may be larger."""
EXPIRES = 20.0
SECOND = 1_000_000_000


class PartitionReader:
    """A consumer of its own that acknowledges nothing: what was delivered is known to the group's records.

    Messages may get lost on the way, when the connection breaks or too many are waiting. Their numbers tell,
    and then a new consumer starts behind the last one that came.
    """

    def __init__(self, link: Link, channel: str, partition: int, ring: Callable[[], None]) -> None:
        self._link = link
        self._channel = channel
        self._partition = partition
        self._stream = link.names.stream(channel, partition)
        self._ring = ring
        self._buffer: deque[Message] = deque()
        self._position = -1
        """The offset that the next message in the buffer has, at least."""
        self._consumer: str | None = None
        self._client: Client | None = None
        self._inbox: Subscription | None = None
        self._delivered = 0
        self._asked = 0
        self._asked_until = 0.0
        self._generation = 0

    async def take(self, offset: int, limit: int) -> list[Message]:
        """What has come from this offset on; more is asked for."""
        if self._consumer is not None and time.monotonic() > self._asked_until:
            # The server may have forgotten the consumer, and does not answer for one that it does not know.
            self.stop()
        if offset != self._position or self._consumer is None:
            await self._start(offset)
        buffer = self._buffer
        taken = [buffer.popleft() for _ in range(min(limit, len(buffer)))]
        if taken:
            self._position = (taken[-1].offset or 0) + 1
        if len(buffer) < AHEAD // 2:
            await self._ask()
        return taken

    @property
    def ready(self) -> bool:
        return bool(self._buffer) or self._consumer is None

    def stop(self) -> None:
        """What is on its way may not come: start anew on the next call, behind what came."""
        self._consumer = None

    async def _start(self, offset: int) -> None:
        """From ``offset`` on, whatever was there before."""
        while self._buffer and self._position <= offset and (self._buffer[0].offset or 0) < offset:
            self._buffer.popleft()
        if not (self._buffer and self._buffer[0].offset == offset):
            self._buffer.clear()
        self._position = offset
        after = (self._buffer[-1].offset or 0) + 1 if self._buffer else offset
        await self._drop_consumer()
        self._generation += 1
        client = self._link.client
        with ours(channel=self._channel, partition=self._partition):
            if self._inbox is None or self._client is not client:
                self._inbox = await client.subscribe(client.new_inbox() + ".*", cb=self._arrive)
                self._client = client
            found = await self._link.request(
                f"CONSUMER.CREATE.{self._stream}",
                stream_name=self._stream,
                config={
                    "deliver_policy": "by_start_sequence",
                    "opt_start_seq": after + 1,
                    "ack_policy": "none",
                    "replay_policy": "instant",
                    "max_deliver": -1,
                    "inactive_threshold": 60 * SECOND,
                    "mem_storage": True,
                    "num_replicas": 1,
                },
            )
        self._consumer = found["name"]
        self._delivered = self._asked = 0
        self._asked_until = time.monotonic() + EXPIRES

    async def _drop_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None and self._link.connected:
            await self._link.client.publish(self._link.subject(f"CONSUMER.DELETE.{self._stream}.{consumer}"))

    async def _ask(self) -> None:
        if self._consumer is None or self._inbox is None or self._asked > AHEAD // 2:
            return
        batch = AHEAD - self._asked
        self._asked += batch
        self._asked_until = time.monotonic() + EXPIRES + 5.0
        client = self._link.client
        # A message that does not fit would never come; with it come its subject and the address to answer to.
        room = max(LEAST_BYTES, 2 * client.max_payload)
        body = {"batch": batch, "expires": int(EXPIRES * SECOND), "max_bytes": room}
        with ours(channel=self._channel, partition=self._partition):
            await client.publish(
                self._link.subject(f"CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"),
                json.dumps(body).encode(),
                self._inbox.subject[:-1] + str(self._generation),
            )

    async def _arrive(self, message: Msg) -> None:
        reply = message.reply
        if not reply.startswith("$JS.ACK."):
            self._status(message)
            return
        parts = reply.split(".")
        at = 5 if len(parts) == 9 else 7
        if parts[at - 2] != self._consumer:
            return
        number = int(parts[at + 1])
        if number != self._delivered + 1:
            self.stop()
        else:
            self._delivered = number
            self._asked -= 1
            self._buffer.append(
                message_of(
                    self._channel,
                    self._partition,
                    int(parts[at]),
                    int(parts[at + 2]) // 1_000_000,
                    message.data,
                    message.headers,
                )
            )
        self._ring()

    def _status(self, message: Msg) -> None:
        """A request has ended: in time, or since the consumer is gone."""
        if message.subject.rpartition(".")[2] != str(self._generation):
            return
        status = (message.headers or {}).get("Status", "")
        if status in ("408", "404") or (status == "409" and "max" in str(message.headers).lower()):
            self._asked = 0
        else:
            self.stop()
        self._ring()

    async def close(self) -> None:
        if self._inbox is not None and self._link.connected and self._client is self._link.client:
            await self._drop_consumer()
            await self._inbox.unsubscribe()
        self._inbox = self._consumer = None
