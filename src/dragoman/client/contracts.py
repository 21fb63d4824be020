"""The client's side of the registry: which version a class is, schemas by id, compiled codecs.

Everything is looked up and compiled once; the hot path meets only the functions that come out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dragoman.client.options import ClientOptions
from dragoman.client.role import Owned
from dragoman.core.contract import Compatibility, ContractVersion
from dragoman.core.errors import ConfigurationError, IncompatibleSchema, NotFound, SchemaError, UnknownSchema
from dragoman.core.format import Codec, Format, ParsedSchema
from dragoman.core.loading import FORMATS, load
from dragoman.core.registry import Registry, VersionNumber
from dragoman.core.schema import Schema
from dragoman.schema.compiling import why_unable
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
    unwritable: IncompatibleSchema | None = None
    """Why instances can be read only: the model's schema has no place for what they hold."""
    modelled: bool = False
    """The version is the model's, whatever the schema of the class is."""

    @property
    def schema_id(self) -> int:
        return id_of(self.version.schema)


class Contracts:
    """Safe for many tasks of one event loop."""

    def __init__(
        self,
        registry: Registry,
        options: ClientOptions,
        registry_url: str = "",
        owned: Callable[[str], Owned | None] | None = None,
    ) -> None:
        """``owned`` tells which channels have contracts of a model, which no class is registered in."""
        self.registry = registry
        self._owned = owned or (lambda channel: None)
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

    async def bind(self, channel: str, cls: type, *, key: bool = False, writes: bool = False) -> Bound:
        """The class's version in the channel's contract, registered first if the options say so.

        Under a model, the model's version: the class is never registered. ``writes`` if instances are to be
        encoded. Raises ``NotFound`` if the version is not there, ``IncompatibleSchema`` if the contract or
        the model refuses the class, ``ConfigurationError`` if the model was not applied.
        """
        found = self._bound.get((channel, cls, key))
        if found is None:
            async with self._lock:
                found = self._bound.get((channel, cls, key))
                if found is None:
                    owned = None if key else self._owned(channel)
                    if owned is None:
                        found = await self._bind(channel, cls, key)
                    else:
                        found = await self._bind_owned(channel, cls, owned)
                    self._bound[channel, cls, key] = found
        if writes and found.unwritable is not None:
            raise found.unwritable
        return found

    def version_of(self, channel: str, cls: type) -> tuple[str, int] | None:
        """The contract and the version that a class was bound to, if it was."""
        bound = self._bound.get((channel, cls, False))
        return None if bound is None else (bound.version.contract, bound.version.version)

    async def _bind_owned(self, channel: str, cls: type, owned: Owned) -> Bound:
        reasons = owned.differences(cls)
        if reasons:
            raise _unlike(channel, cls, owned, " ".join(reasons))
        version = await self._owned_version(owned)
        schema_id = id_of(version.schema)
        known = self._known[schema_id] = await self._parse(version.schema)
        try:
            codec = known.format.codec(known.parsed, cls=cls)
        except IncompatibleSchema as error:
            raise _unlike(channel, cls, owned, error.what) from error
        reason = why_unable(codec.encode)
        unwritable = None if reason is None else _unlike(channel, cls, owned, reason.what)
        tag(cls, Tag(self._url, channel, owned.contract, version.version, schema_id))
        return Bound(cls, version, known, codec.framed(header_of(schema_id), cls).encode, unwritable, True)

    async def _owned_version(self, owned: Owned) -> ContractVersion:
        """The version with the model's schema. The first one may be made here, as ``apply`` would make it."""
        try:
            return await self.registry.find(owned.contract, owned.schema)
        except NotFound:
            missing = await self._is_missing(owned.contract)
        if missing and self._options.auto_register_schemas:
            return await self.registry.register(owned.contract, owned.schema)
        raise ConfigurationError(
            f"The contract {owned.contract!r} has no version with the model's schema.",
            code="client.model-not-applied",
            next="Run: dragoman model plan, then dragoman model apply, with this model.",
            model=owned.place,
        )

    async def _is_missing(self, contract: str) -> bool:
        try:
            return (await self.registry.contract(contract)).version == 0
        except NotFound:
            return True

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

    async def own_schema(self, bound: Bound, schema_id: int) -> Known | None:
        """The schema of the class itself, if that is the one, although the class is bound to a model's.

        Clients without the model may have registered it, so messages with it are read as they were written.
        """
        if not bound.modelled or schema_id == bound.schema_id:
            return None
        writer = await self.known(schema_id)
        try:
            own = self._reader(bound.cls, writer.format)
        except SchemaError:
            return None
        return own if own.parsed.fingerprint == writer.parsed.fingerprint else None

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
        owned = self._owned(channel)
        contract = self._options.naming.for_value(channel, name) if owned is None else owned.contract
        return await self.version_in(contract, schema_id)

    async def compatibility(self, contract: str) -> Compatibility:
        return (await self.registry.contract(contract)).compatibility


def _unlike(channel: str, cls: type, owned: Owned, reason: str) -> IncompatibleSchema:
    return IncompatibleSchema(
        f"{cls.__qualname__} is not what the model has on {channel!r}: {reason}",
        code="client.model-class",
        next="Change the class, or generate it: dragoman model code.",
        model=owned.place,
        contract=owned.contract,
    )


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
