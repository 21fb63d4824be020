"""The schema format port: the same verbs for Avro, JSON Schema, Protobuf and Thrift."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from dragoman.core.contract import Incompatibility
from dragoman.core.errors import EncodeError


class Policy(StrEnum):
    """How a format's checker judges what the field's usual tools are of two minds about."""

    STRICT = "STRICT"
    """What the usual checkers refuse."""
    LENIENT = "LENIENT"
    """Less: what writers could have sent, but by intent did not, does not count."""
    EXACT = "EXACT"
    """Also what the usual checkers overlook."""


class ParsedSchema(Protocol):
    """A valid schema with its references resolved. Immutable and safe to share between threads."""

    @property
    def text(self) -> str:
        """As it was written."""

    @property
    def name(self) -> str:
        """The full name of the root type, or an empty string."""

    @property
    def fingerprint(self) -> str:
        """Equal for schemas that mean the same on the wire, whatever their layout and documentation."""

    def normalised(self, level: int) -> str:
        """Level 1 removes what is layout only. Level 2 also orders what has no order of its own."""


@dataclass(frozen=True, slots=True)
class Codec:
    """Two compiled functions. ``encode`` gives the payload without its frame."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    """Raises ``DecodeError`` or ``ConstraintViolated`` and nothing else, whatever the bytes."""

    def framed(self, header: bytes, cls: type | None = None) -> Codec:
        """The same with the frame: ``encode`` puts the header in front, ``decode`` passes over its length.

        Whoever found the codec by the header has seen that it is there; it is not looked at again. With
        ``cls`` only its instances are encoded: a look-alike is refused. A codec that can do all this at once
        overrides it.
        """
        encode, decode, size = self.encode, self.decode, len(header)

        def encode_framed(value: Any) -> bytes:
            if cls is not None and type(value) is not cls and not isinstance(value, cls):
                raise EncodeError(
                    f"This producer takes {cls.__qualname__}, not {type(value).__qualname__}.",
                    code="message.encode.class",
                )
            return header + encode(value)

        return Codec(encode_framed, lambda frame: decode(frame[size:]))


class Format(Protocol):
    """One schema language. Stateless; loaded once per process by its ``schema_type``."""

    schema_type: str
    """``AVRO``, ``JSON``, ``PROTOBUF`` or ``THRIFT``: what a schema's ``type`` says."""

    def parse(self, text: str, references: Mapping[str, ParsedSchema] | None = None) -> ParsedSchema:
        """``references`` maps the names used in the text. Raises ``InvalidSchema`` with the place."""

    def incompatibilities(
        self, reader: ParsedSchema, writer: ParsedSchema, policy: Policy = Policy.STRICT
    ) -> Sequence[Incompatibility]:
        """Why the reader cannot read the writer's data; empty when it can."""

    def codec(
        self, writer: ParsedSchema, reader: ParsedSchema | None = None, cls: type | None = None
    ) -> Codec:
        """Compile encoding as ``writer`` and decoding of ``writer``'s payloads as ``reader``.

        With ``cls`` values are instances of that class, else plain Python (dict, list, str, ...). Without
        ``reader`` the writer's own schema is used. Raises ``IncompatibleSchema``.
        """

    def record_class(self, schema: ParsedSchema) -> type:
        """A record class for the schema, made while the program runs: ``schema_of`` the other way round.

        Raises ``InvalidSchema`` for a schema that no record class can hold.
        """

    def schema_of(self, cls: type) -> str:
        """The schema text of a record class. Raises ``InvalidSchema`` for a class it cannot describe."""
