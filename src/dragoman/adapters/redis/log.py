"""The history of channels as columns, synchronous."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from redis import Redis
from redis import exceptions as theirs
from redis.backoff import NoBackoff
from redis.retry import Retry

from dragoman.adapters.redis.channels import channel_of, not_found
from dragoman.adapters.redis.errors import ours
from dragoman.adapters.redis.keys import Keys
from dragoman.adapters.redis.options import Options
from dragoman.adapters.redis.scripts import BOUNDS, READ, STAMPS, Script
from dragoman.adapters.redis.wire import messages_in, stamps_in
from dragoman.core.errors import ChannelNotFound
from dragoman.core.log import LogSlice, slice_of
from dragoman.core.seeking import seek

SLICE_MESSAGES = 10_000
SLICE_BYTES = 16 << 20
_BOUNDS, _READ, _STAMPS = Script(BOUNDS), Script(READ), Script(STAMPS)


class RedisLogReader:
    """Implements ``dragoman.core.broker.LogReader``. Picklable: only the options travel."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._keys = Keys(options.prefix)
        self._client: Redis | None = None

    def partitions(self, channel: str) -> Mapping[int, tuple[int, int]]:
        fields = self._do("HGETALL", self._keys.channel(channel))
        if not fields:
            raise not_found(channel)
        return {
            number: self._bounds(channel, number) for number in range(channel_of(channel, fields).partitions)
        }

    def channels(self) -> Sequence[str]:
        return sorted(name.decode() for name in self._do("SMEMBERS", self._keys.channels))

    def offset_at(self, channel: str, partition: int, timestamp: int) -> int:
        start, end = self._bounds(channel, partition)
        stream = self._keys.stream(channel, partition)

        def stamps(offset: int, count: int) -> list[tuple[int, int]]:
            return stamps_in(self._run(_STAMPS, [stream], [f"0-{offset + 1}", count]))

        return seek(start, end, timestamp, stamps)

    def read(self, channel: str, partition: int, start: int, end: int) -> LogSlice:
        first, last = self._bounds(channel, partition)
        start, end = max(start, first), min(end, last)
        if end <= start:
            return slice_of([], start)
        [blob] = self._run(
            _READ,
            [self._keys.stream(channel, partition)],
            [min(SLICE_MESSAGES, end - start), SLICE_BYTES, f"0-{start + 1}", f"0-{end}"],
        )
        return slice_of(messages_in(blob, channel, partition), end)

    def _bounds(self, channel: str, partition: int) -> tuple[int, int]:
        """The first offset that is there, and the one after the last there ever was."""
        [bounds] = self._run(_BOUNDS, [self._keys.stream(channel, partition)], [])
        if not bounds:
            raise ChannelNotFound(f"There is no partition {partition}.", channel=channel)
        first, end = bounds
        return first, end

    def _do(self, *command: Any) -> Any:
        with ours():
            return self._connected().execute_command(*command)

    def _run(self, script: Script, keys: list[str], arguments: list[Any]) -> Any:
        with ours():
            try:
                return self._connected().execute_command(*script.call(keys, arguments))
            except theirs.NoScriptError:
                return self._connected().execute_command(*script.full(keys, arguments))

    def _connected(self) -> Any:
        if self._client is None:
            self._client = Redis(**(self._options.driver() | {"retry": Retry(NoBackoff(), 3)}))
        return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def __reduce__(self) -> tuple[object, ...]:
        return RedisLogReader, (self._options,)
