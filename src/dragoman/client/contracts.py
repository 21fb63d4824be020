"""The client's side of the registry: which version a class is, schemas by id, compiled codecs.

Everything is looked up and compiled once; the hot path meets only the functions that come out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dragoman.client.options import ClientOptions
from dragoman.core.contract import Compatibility, ContractVersion
from dragoman.core.errors import NotFound, UnknownSchema
from dragoman.core.format import Codec, Format, ParsedSchema
from dragoman.core.loading import FORMATS, load
from dragoman.core.registry import Registry, VersionNumber
from dragoman.core.schema import Schema
from dragoman.schema.framing import header_of
from dragoman.schema.tagging import Tag, tag

Decode = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class Known:
    """A schema of the registry, parsed."""

    schema: Schema
    format: Format
    parsed: ParsedSchema


@dataclass(frozen=True, slots=True)
class Bound:
    """A class as a version of a contract. ``encode`` gives the whole frame."""

    cls: type
    version: ContractVersion
    known: Known
    encode: Callable[[Any], bytes]

    @property
    def schema_id(self) -> int:
        return id_of(self.version.schema)


class Contracts:
    """Safe for many tasks of one event loop."""

    def __init__(self, registry: Registry, options: ClientOptions, registry_url: str = "") -> None:
        self.registry = registry
        self._url = registry_url
        self._options = options
        self._bound: dict[tuple[str, type, bool], Bound] = {}
        self._known: dict[int, Known] = {}
        self._readers: dict[tuple[int, type | None], Codec] = {}
        self._frame_decoders: dict[tuple[int, type | None], Decode] = {}
        self._lock = asyncio.Lock()

    @property
    def largest_message(self) -> int:
        return self._options.largest_message

    @property
    def _format(self) -> Format:
        return format_of(self._options.format)

    def contract_name(self, channel: str, cls: type, *, key: bool = False) -> str:
        parsed = self._format.parse(self._format.schema_of(cls))
        naming = self._options.naming
        return (naming.for_key if key else naming.for_value)(channel, parsed.name)

    async def bind(self, channel: str, cls: type, *, key: bool = False) -> Bound:
        """The class's version in the channel's contract, registered first if the options say so.

        Raises ``NotFound`` without that, ``IncompatibleSchema`` if the contract refuses it.
        """
        found = self._bound.get((channel, cls, key))
        if found is not None:
            return found
        async with self._lock:
            found = self._bound.get((channel, cls, key))
            if found is None:
                found = self._bound[channel, cls, key] = await self._bind(channel, cls, key)
            return found

    async def _bind(self, channel: str, cls: type, key: bool) -> Bound:
        text = self._format.schema_of(cls)
        parsed = self._format.parse(text)
        naming = self._options.naming
        contract = (naming.for_key if key else naming.for_value)(channel, parsed.name)
        schema = Schema(self._format.schema_type, text)
        if self._options.auto_register_schemas:
            version = await self.registry.register(contract, schema)
        else:
            version = await self.registry.find(contract, schema)
        schema_id = id_of(version.schema)
        tag(cls, Tag(self._url, channel, contract, version.version, schema_id))
        codec = self._format.codec(parsed, cls=cls)
        known = Known(version.schema, self._format, parsed)
        # Our own messages can be read from now on, whether or not the registry stays within reach.
        if schema_id not in self._known:
            same = version.schema.text == text
            self._known[schema_id] = known if same else await self._parse(version.schema)
        return Bound(cls, version, known, codec.framed(header_of(schema_id), cls).encode)

    async def plain_codec(self, contract: str, version: VersionNumber = "latest") -> Codec:
        """Between plain Python values and whole frames, for those who have no class.

        Raises ``NotFound``.
        """
        found = await self.registry.version(contract, version)
        known = await self.known(id_of(found.schema))
        return known.format.codec(known.parsed).framed(header_of(id_of(found.schema)))

    async def known(self, schema_id: int) -> Known:
        """Raises ``UnknownSchema``, ``RegistryUnavailable``."""
        found = self._known.get(schema_id)
        if found is None:
            try:
                schema = await self.registry.schema(schema_id)
            except NotFound as error:
                raise UnknownSchema(
                    f"The registry does not know the schema {schema_id}.",
                    next="Was the message written with another registry?",
                    schema_id=schema_id,
                ) from error
            found = self._known[schema_id] = await self._parse(schema)
        return found

    async def _parse(self, schema: Schema) -> Known:
        format = format_of(schema.type)
        references: dict[str, ParsedSchema] = {}
        for reference in schema.references:
            version = await self.registry.version(reference.contract, reference.version)
            references[reference.name] = (await self._parse(version.schema)).parsed
        return Known(schema, format, format.parse(schema.text, references))

    async def decoder(self, schema_id: int, cls: type | None, reader: Known | None = None) -> Decode:
        """From the payload of this schema to the class, by schema resolution if ``reader`` is another.

        Without a class, plain Python. Raises ``IncompatibleSchema``, ``UnknownSchema``.
        """
        return (await self._codec(schema_id, cls, reader)).decode

    async def frame_decoder(self, schema_id: int, cls: type | None, reader: Known | None = None) -> Decode:
        """The same from whole frames, of which the header has been read."""
        found = self._frame_decoders.get((schema_id, cls))
        if found is None:
            codec = await self._codec(schema_id, cls, reader)
            found = self._frame_decoders[schema_id, cls] = codec.framed(header_of(schema_id)).decode
        return found

    async def _codec(self, schema_id: int, cls: type | None, reader: Known | None) -> Codec:
        found = self._readers.get((schema_id, cls))
        if found is None:
            writer = await self.known(schema_id)
            if cls is not None and reader is None:
                reader = self._reader(cls, writer.format)
            parsed = None if reader is None else reader.parsed
            if parsed is not None and parsed.text == writer.parsed.text:
                parsed = None
            found = self._readers[schema_id, cls] = writer.format.codec(writer.parsed, parsed, cls)
        return found

    def _reader(self, cls: type, format: Format) -> Known:
        text = format.schema_of(cls)
        return Known(Schema(format.schema_type, text), format, format.parse(text))

    async def version_in(self, contract: str, schema_id: int) -> ContractVersion | None:
        """Which version of the contract this schema is, if it is one."""
        try:
            return await self.registry.find(contract, (await self.known(schema_id)).schema)
        except NotFound:
            return None

    async def version_on(self, channel: str, schema_id: int) -> ContractVersion | None:
        """Which version of the channel's contract this schema is, if it is one."""
        name = (await self.known(schema_id)).parsed.name
        return await self.version_in(self._options.naming.for_value(channel, name), schema_id)

    async def compatibility(self, contract: str) -> Compatibility:
        return (await self.registry.contract(contract)).compatibility


def id_of(schema: Schema) -> int:
    if schema.id is None:
        raise UnknownSchema("The registry gave a schema without its id.", schema_type=schema.type)
    return schema.id


_formats: dict[str, Format] = {}


def format_of(schema_type: str) -> Format:
    found = _formats.get(schema_type)
    if found is None:
        found = _formats[schema_type] = load(FORMATS, schema_type)()
    return found
