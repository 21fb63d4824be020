"""The objects of one message, as a subscriber gets at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, overload

from dragoman.core.message import Headers
from dragoman.topology.serializer import Codecs

T = TypeVar("T")


class Part(NamedTuple):
    name: str
    """The full name of its type, as the registry knows it."""
    schema_id: int
    frame: bytes


class Multipart:
    """Objects are read when they are asked for, by a class that the program itself gives."""

    __slots__ = ("_codecs", "_first", "_metadata", "_parts", "_serializer")

    def __init__(
        self, first: Any, parts: Sequence[Part], codecs: Codecs, serializer: str, metadata: Headers
    ) -> None:
        self._first = first
        self._parts = parts
        self._codecs = codecs
        self._serializer = serializer
        self._metadata = metadata

    @overload
    def get(self, type: type[T]) -> T | None: ...
    @overload
    def get(self, type: str) -> Any: ...
    def get(self, type: Any) -> Any:
        """The object of this class, or ``None``. By a type's full name, its plain values.

        Raises ``DecodeError`` and ``IncompatibleSchema`` for an object that cannot be read so.
        """
        if self._first.__class__ is type:
            return self._first
        name = type if isinstance(type, str) else self._codecs.name_of(self._serializer, type)
        for part in self._parts:
            if part.name == name:
                cls = None if isinstance(type, str) else type
                return self._codecs.decoder(self._serializer, part.schema_id, cls)(part.frame)
        return None

    @property
    def types(self) -> tuple[str, ...]:
        """The full names of the objects' types, in the order they were sent."""
        return tuple(part.name for part in self._parts)

    @property
    def metadata(self) -> Mapping[str, bytes]:
        """What the sender and its interceptors added."""
        return dict(self._metadata)

    def __len__(self) -> int:
        return len(self._parts)
