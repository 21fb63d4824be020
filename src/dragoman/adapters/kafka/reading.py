"""What the driver brings, as ours: many at once, since loops over the driver's methods run outside Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any, overload

from confluent_kafka import Message as Raw

from dragoman.core.message import Headers, Message, Position, message_of
from dragoman.core.run import Run

_position = partial(tuple.__new__, Position)
_millis = itemgetter(1)


class Fetched(Run):
    """Messages of one partition as the driver gave them, none of them an error."""

    __slots__ = ("_messages", "_raws", "size")

    def __init__(
        self,
        place: tuple[str, int | None],
        payloads: Sequence[bytes | None],
        offsets: Sequence[int | None],
        plain: bool,
        raws: Sequence[Any],
        size: int,
    ) -> None:
        super().__init__(place, payloads, offsets, plain)
        self._raws = raws
        self.size = size
        """Bytes of all payloads, keys and headers."""
        self._messages: Sequence[Message] | None = None

    @classmethod
    def of(cls, place: tuple[str, int | None], raws: Sequence[Any]) -> Fetched:
        payloads, offsets = list(map(Raw.value, raws)), list(map(Raw.offset, raws))
        plain = None not in payloads and not any(map(Raw.headers, raws))
        return cls(place, payloads, offsets, plain, raws, _size_of(raws, plain))

    @property
    def messages(self) -> Sequence[Message]:
        if self._messages is None:
            self._messages = _messages_of(self._raws)
        return self._messages

    def one(self, at: int) -> Message:
        return _messages_of(self._raws[at : at + 1])[0] if self._messages is None else self._messages[at]

    def split(self, at: int) -> tuple[Fetched, Fetched]:
        """The first ``at`` messages, and the others."""
        size = _size_of(self._raws[:at], self.plain)
        return self._part(slice(at), size), self._part(slice(at, None), self.size - size)

    def _part(self, some: slice, size: int) -> Fetched:
        place = self.channel, self.partition
        return Fetched(place, self.payloads[some], self.offsets[some], self.plain, self._raws[some], size)


def fetched(found: Iterable[Any]) -> Iterator[Fetched]:
    for channel, some in groupby(found, Raw.topic):
        for partition, run in groupby(some, Raw.partition):
            yield Fetched.of((channel, partition), list(run))


def _size_of(raws: Sequence[Any], plain: bool) -> int:
    size = sum(map(len, raws)) + sum(map(len, filter(None, map(Raw.key, raws))))
    if plain:
        return size
    pairs = (pair for headers in map(Raw.headers, raws) for pair in headers or ())
    return size + sum(len(name) + len(value or b"") for name, value in pairs)


def _messages_of(raws: Sequence[Any]) -> Sequence[Message]:
    headers = list(map(Raw.headers, raws))
    columns = zip(
        map(Raw.topic, raws),
        map(Raw.value, raws),
        map(Raw.key, raws),
        map(_pairs, headers) if any(headers) else repeat(()),
        map(Raw.partition, raws),
        map(Raw.offset, raws),
        map(_millis, map(Raw.timestamp, raws)),
        repeat(1),
        strict=False,
    )
    return list(map(message_of, columns))


class Positions(Sequence[Position]):
    """Where messages are that were delivered. They become tuples when somebody asks, which seldom happens."""

    def __init__(self, channels: Sequence[str], partitions: Sequence[int], offsets: Sequence[int]) -> None:
        self._columns = channels, partitions, offsets

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, at: int) -> Position: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Position]: ...
    def __getitem__(self, at: int | slice) -> Position | Sequence[Position]:
        return self._all[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all == list(other)

    def __repr__(self) -> str:
        return repr(self._all)

    @cached_property
    def _all(self) -> list[Position]:
        return list(map(_position, zip(*self._columns, strict=True)))


def _pairs(headers: Sequence[tuple[str, bytes | None]] | None) -> Headers:
    return tuple((name, value or b"") for name, value in headers) if headers else ()
