"""Serializers: between record classes and frames. The publisher chooses one; a receiver knows them all.

Whatever the serializer, the frame is a zero byte, the schema's id and the payload, and the schema stands in
the contract ``<channel>-<record>``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dragoman.client.contracts import Contracts, Known
from dragoman.client.options import ClientOptions
from dragoman.core.errors import ConfigurationError, DecodeError
from dragoman.core.extras import extra_missing
from dragoman.core.registry import Registry
from dragoman.schema.framing import HEADER_SIZE, unframe
from dragoman.schema.naming import Naming

Recode = Callable[[bytes], bytes]


def as_it_is(payload: bytes) -> bytes:
    return payload


@dataclass(frozen=True, slots=True)
class Serializer:
    """``schema_type`` is the language of its schemas. ``pack`` and ``unpack`` change between the payload of
    that format and the one on the wire; ``unpack`` raises ``DecodeError`` for bytes that it cannot read."""

    name: str
    schema_type: str
    content_type: str
    pack: Recode = as_it_is
    unpack: Recode = as_it_is


def cbor() -> Serializer:
    """Records as CBOR, by the rules and the schema of JSON."""
    try:
        import cbor2
    except ModuleNotFoundError as error:
        raise extra_missing("The serializer 'cbor'", "cbor2", "topology") from error

    def pack(payload: bytes) -> bytes:
        return cbor2.dumps(json.loads(payload))

    def unpack(payload: bytes) -> bytes:
        try:
            return json.dumps(cbor2.loads(payload), allow_nan=False).encode()
        # Whatever a stranger's bytes make the two libraries raise, they are not a message of ours.
        except Exception as error:
            raise DecodeError(
                "The payload is not the CBOR of a record.", code="message.decode.cbor"
            ) from error

    return Serializer("cbor", "JSON", "application/cbor", pack, unpack)


def standard() -> tuple[Serializer, ...]:
    return (
        Serializer("avro", "AVRO", "application/avro"),
        Serializer("json", "JSON", "application/json"),
        cbor(),
    )


class Codecs:
    """Serializers with the contracts they write and read by. Safe for many tasks of one event loop."""

    def __init__(self, registry: Registry, serializers: Iterable[Serializer], url: str = "") -> None:
        self._serializers = {each.name: each for each in serializers}
        self._contracts = {
            each.name: Contracts(
                registry, ClientOptions(naming=Naming.CHANNEL_RECORD, format=each.schema_type), url
            )
            for each in self._serializers.values()
        }
        self._schemas: dict[tuple[str, int], Known] = {}
        self._decoders: dict[tuple[str, int, type | None], Callable[[bytes], Any]] = {}
        self._names: dict[tuple[str, type], str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._serializers))

    def serializer(self, name: str) -> Serializer:
        found = self._serializers.get(name)
        if found is None:
            raise ConfigurationError(
                f"There is no serializer {name!r}.",
                code="topology.serializer",
                next=f"Use one of {', '.join(self.names)}.",
            )
        return found

    async def encoder(self, serializer: str, channel: str, cls: type) -> Callable[[Any], bytes]:
        """From an object to its frame. Registers the class's schema if need be."""
        kind = self.serializer(serializer)
        bound = await self._contracts[serializer].bind(channel, cls)
        return bound.encode if kind.pack is as_it_is else _packing(bound.encode, kind.pack)

    async def type_name(self, serializer: str, frame: bytes) -> tuple[int, str]:
        """The schema's id and the full name of its record. Raises ``UnknownSchema``, ``FrameError``."""
        self.serializer(serializer)
        schema_id, _ = unframe(frame)
        known = self._schemas.get((serializer, schema_id))
        if known is None:
            known = await self._contracts[serializer].known(schema_id)
            self._schemas[serializer, schema_id] = known
        return schema_id, known.parsed.name

    def decoder(self, serializer: str, schema_id: int, cls: type | None) -> Callable[[bytes], Any]:
        """From the frame to an object of the class, or to plain values. ``type_name`` comes first.

        Raises ``IncompatibleSchema``.
        """
        found = self._decoders.get((serializer, schema_id, cls))
        if found is None:
            found = _reading(self.serializer(serializer), self._schemas[serializer, schema_id], cls)
            self._decoders[serializer, schema_id, cls] = found
        return found

    def name_of(self, serializer: str, cls: type) -> str:
        """The full name that a class has in the schemas of this serializer."""
        found = self._names.get((serializer, cls))
        if found is None:
            contracts = self._contracts[serializer]
            found = self._names[serializer, cls] = contracts.contract_name("", cls).removeprefix("-")
        return found

    def names_of(self, serializer: str, types: Iterable[type]) -> Mapping[str, type]:
        """The allow-list of a subscriber. Two classes of one name are refused."""
        found: dict[str, type] = {}
        for cls in types:
            name = self.name_of(serializer, cls)
            if found.setdefault(name, cls) is not cls:
                raise ConfigurationError(
                    f"Two classes are named {name}.",
                    code="topology.types",
                    next="Give one of them another name or namespace.",
                )
        return found


def _packing(encode: Callable[[Any], bytes], pack: Recode) -> Callable[[Any], bytes]:
    def encode_packed(value: Any) -> bytes:
        frame = encode(value)
        return frame[:HEADER_SIZE] + pack(frame[HEADER_SIZE:])

    return encode_packed


def _reading(kind: Serializer, writer: Known, cls: type | None) -> Callable[[bytes], Any]:
    """Decode what the writer wrote, by schema resolution where the class has another version."""
    reader = None
    if cls is not None:
        text = writer.format.schema_of(cls)
        reader = None if text == writer.schema.text else writer.format.parse(text)
    decode, unpack = writer.format.codec(writer.parsed, reader, cls).decode, kind.unpack
    if unpack is as_it_is:
        return lambda frame: decode(frame[HEADER_SIZE:])
    return lambda frame: decode(unpack(frame[HEADER_SIZE:]))
