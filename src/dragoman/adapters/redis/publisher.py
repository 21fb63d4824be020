"""From messages to stream entries: what is published while a call is under way goes with the next one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from dragoman.adapters.redis.channels import Channels, Known, not_found
from dragoman.adapters.redis.connection import Server
from dragoman.adapters.redis.keys import Keys
from dragoman.adapters.redis.scripts import APPEND, POSTPONE, Script
from dragoman.adapters.redis.wire import arguments_of, pack_delayed
from dragoman.core.errors import ChannelNotFound, ConfigurationError, EncodeError
from dragoman.core.message import Message, Position

_APPEND, _POSTPONE = Script(APPEND), Script(POSTPONE)

MOST_MESSAGES = 2000
MOST_BYTES = 8 << 20
MAX_PAYLOAD = 256 << 20


class Waiting(NamedTuple):
    """One call of ``publish``: where each message came to stand, as far as it does by now."""

    messages: Sequence[Message]
    positions: list[Position | None]
    done: asyncio.Future[list[Position]]

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result([position for position in self.positions if position is not None])


class Publisher:
    """One call at a time, so that messages keep the order in which ``publish`` was called."""

    def __init__(self, server: Server, keys: Keys, channels: Channels) -> None:
        self._server = server
        self._keys = keys
        self._channels = channels
        self._queue: list[Waiting] = []
        self._sending: asyncio.Task[None] | None = None

    async def publish(self, messages: Sequence[Message]) -> list[Position]:
        for name in {message.channel for message in messages}:
            await self._channels.known(name)
        nowhere: list[Position | None] = [None] * len(messages)
        waiting = Waiting(messages, nowhere, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_all())
        return await waiting.done

    async def _send_all(self) -> None:
        try:
            while self._queue:
                await self._send(self._next())
        finally:
            self._sending = None

    def _next(self) -> list[Waiting]:
        """What was asked for meanwhile, up to a bound, in order."""
        count = taken = 0
        while taken < len(self._queue) and (not taken or count < MOST_MESSAGES):
            count += len(self._queue[taken].messages)
            taken += 1
        batch, self._queue = self._queue[:taken], self._queue[taken:]
        return batch

    async def _send(self, batch: list[Waiting]) -> None:
        """All calls of the batch in one; if one of them is at fault, what is left of each by itself."""
        try:
            await self._append(batch)
        except (ChannelNotFound, ConfigurationError, EncodeError) as error:
            if len(batch) > 1:
                for waiting in batch:
                    await self._send([waiting])
            else:
                _fail(batch, error)
        except BaseException as error:
            _fail(batch, error)
            if not isinstance(error, Exception):
                raise
        else:
            for waiting in batch:
                waiting.finish()

    async def _append(self, batch: Sequence[Waiting]) -> None:
        messages = [message for waiting in batch for message in waiting.messages]
        positions = [position for waiting in batch for position in waiting.positions]
        try:
            for name, indexes in _by_channel(messages).items():
                left = [index for index in indexes if positions[index] is None]
                await self._append_to(name, messages, left, positions)
        finally:
            at = 0
            for waiting in batch:
                waiting.positions[:] = positions[at : at + len(waiting.messages)]
                at += len(waiting.messages)

    async def _append_to(
        self, name: str, messages: Sequence[Message], indexes: Sequence[int], positions: list[Position | None]
    ) -> None:
        for start in _portions(messages, indexes):
            part = indexes[start[0] : start[1]]
            for _ in range(3):
                known = await self._channels.known(name)
                places = await self._places(known, messages, part)
                keys, arguments = self._call(name, places, messages)
                firsts = await self._server.run_safely(_APPEND, keys, arguments)
                if firsts:
                    break
                # A partition that was there is gone: the channel was deleted, and may be there again.
                self._channels.forget(name)
            else:
                raise not_found(name)
            for (partition, some), first in zip(places.items(), firsts, strict=True):
                offset = int(first[2:]) - 1
                for number, index in enumerate(some):
                    positions[index] = Position(name, partition, offset + number)

    async def _places(
        self, known: Known, messages: Sequence[Message], indexes: Sequence[int]
    ) -> dict[int, list[int]]:
        """Per partition which messages go there."""
        wanted = max((messages[index].partition or 0 for index in indexes), default=0)
        if wanted >= known.channel.partitions:
            self._channels.forget(known.channel.name)
            known = await self._channels.known(known.channel.name)
        found: dict[int, list[int]] = {}
        choose, partitions = known.partitioner.choose, known.channel.partitions
        for index in indexes:
            found.setdefault(choose(messages[index], partitions), []).append(index)
        return found

    def _call(
        self, name: str, places: dict[int, list[int]], messages: Sequence[Message]
    ) -> tuple[list[str], list[Any]]:
        now = time.time_ns() // 1_000_000
        keys, arguments = [], []
        for partition, some in places.items():
            keys.append(self._keys.stream(name, partition))
            arguments += arguments_of([messages[index] for index in some], now)
        return keys, arguments

    async def postpone(self, messages: Sequence[Message], due: float) -> None:
        for name, indexes in _by_channel(messages).items():
            known = await self._channels.known(name)
            await self._places(known, messages, indexes)
            packed = [pack_delayed(messages[index]) for index in indexes]
            there = await self._server.run_safely(
                _POSTPONE, [self._keys.delayed(name), self._keys.channel(name)], [due, *packed]
            )
            if not there:
                self._channels.forget(name)
                raise not_found(name)

    async def close(self) -> None:
        if self._sending is not None:
            await asyncio.wait([self._sending])


def _fail(batch: list[Waiting], error: BaseException) -> None:
    for waiting in batch:
        if not waiting.done.done():
            waiting.done.set_exception(error)


def _by_channel(messages: Sequence[Message]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for index, message in enumerate(messages):
        found.setdefault(message.channel, []).append(index)
    return found


def _portions(messages: Sequence[Message], indexes: Sequence[int]) -> list[tuple[int, int]]:
    """Where to cut, so that no call becomes too large for the server to do at once."""
    cuts, start, weight = [], 0, 0
    for at, index in enumerate(indexes):
        weight += _size(messages[index])
        if at + 1 - start >= MOST_MESSAGES or weight >= MOST_BYTES:
            cuts.append((start, at + 1))
            start, weight = at + 1, 0
    return [*cuts, (start, len(indexes))] if start < len(indexes) else cuts


def _size(message: Message) -> int:
    size = len(message.payload or b"")
    if size > MAX_PAYLOAD:
        raise EncodeError(
            f"A payload of {size} bytes is too large.",
            code="message.too-large",
            next=f"Send at most {MAX_PAYLOAD} bytes, or a reference to where the data lies.",
            channel=message.channel,
        )
    return size
