"""Many messages as columns. One of them becomes a ``Message`` when somebody asks for it; most are not."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby, repeat
from operator import attrgetter
from typing import TypeAlias, overload

from dragoman.core.message import Headers, Message, message_of, place_of

_offset = attrgetter("offset")
_payload = attrgetter("payload")
_headers = attrgetter("headers")


class Columns(Sequence[Message]):
    """What all of these have in common."""

    __slots__ = ()

    @abstractmethod
    def one(self, at: int) -> Message:
        """The message at this place."""

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> list[Message]: ...
    def __getitem__(self, at: int | slice) -> Message | list[Message]:
        places = range(len(self))[at]
        return self.one(places) if isinstance(places, int) else [self.one(place) for place in places]


class Alike(Columns):
    """Messages to be sent that differ in their payloads only."""

    __slots__ = ("channel", "headers", "partition", "payloads")

    def __init__(
        self, channel: str, payloads: Sequence[bytes], headers: Headers = (), partition: int | None = None
    ) -> None:
        self.channel = channel
        self.payloads = payloads
        self.headers = headers
        self.partition = partition

    def __len__(self) -> int:
        return len(self.payloads)

    def __iter__(self) -> Iterator[Message]:
        columns = (
            repeat(self.channel),
            self.payloads,
            repeat(None),
            repeat(self.headers),
            repeat(self.partition),
            repeat(None),
            repeat(None),
            repeat(1),
        )
        return map(message_of, zip(*columns, strict=False))

    def one(self, at: int) -> Message:
        return Message(self.channel, self.payloads[at], None, self.headers, self.partition)


class Run(Columns):
    """Messages of one partition that were received together, in order."""

    __slots__ = ("channel", "offsets", "partition", "payloads", "plain")

    def __init__(
        self,
        place: tuple[str, int | None],
        payloads: Sequence[bytes | None],
        offsets: Sequence[int | None],
        plain: bool,
    ) -> None:
        self.channel, self.partition = place
        self.payloads = payloads
        self.offsets = offsets
        self.plain = plain
        """They are nothing but payloads: none of them has headers, or no payload."""

    def __len__(self) -> int:
        return len(self.payloads)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    @property
    @abstractmethod
    def messages(self) -> Sequence[Message]:
        """All of them, for whoever wants more than one: made at once, and once."""


Entry: TypeAlias = tuple[Run, int]
"""One message of a run."""


def offset_of(entry: Entry) -> int:
    run, at = entry
    return run.offsets[at] or 0


def message_at(entry: Entry) -> Message:
    run, at = entry
    return run.one(at)


class Listed(Run):
    """One whose messages are there already. At least one."""

    __slots__ = ("_messages",)

    def __init__(self, messages: Sequence[Message]) -> None:
        payloads, offsets = list(map(_payload, messages)), list(map(_offset, messages))
        plain = None not in payloads and not any(map(_headers, messages))
        super().__init__(place_of(messages[0]), payloads, offsets, plain)
        self._messages = messages

    @property
    def messages(self) -> Sequence[Message]:
        return self._messages

    def one(self, at: int) -> Message:
        return self._messages[at]


class Runs(Sequence[Message]):
    """The messages of some runs, one after the other."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self._length = sum(map(len, runs))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Message]:
        return chain.from_iterable(self.runs)

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> list[Message]: ...
    def __getitem__(self, at: int | slice) -> Message | list[Message]:
        return self._all[at]

    @cached_property
    def _all(self) -> list[Message]:
        return list(self)


def runs_of(messages: Sequence[Message]) -> Iterable[Run]:
    """The same messages, divided wherever the partition changes."""
    if isinstance(messages, Runs):
        return messages.runs
    return [Listed(list(run)) for _, run in groupby(messages, place_of)]
