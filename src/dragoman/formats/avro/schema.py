"""A parsed Avro schema, as the format port gives it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from dragoman.core.errors import InvalidSchema
from dragoman.core.format import Codec, ParsedSchema
from dragoman.formats.avro.canonical import canonical, crc64, normalised, sha256
from dragoman.formats.avro.jsontext import dumps, loads
from dragoman.formats.avro.nodes import Enum, Fixed, Named, Node, Record, label
from dragoman.formats.avro.parser import parse


@dataclass(eq=False, repr=False)
class AvroSchema:
    """``names`` are the named types of this text, ``known`` those of the schemas that it refers to."""

    text: str
    root: Node
    names: Mapping[str, Named]
    known: Mapping[str, Named] = field(default_factory=dict)
    codecs: dict[object, Codec] = field(default_factory=dict)
    """Compiled for this writer, by reader, class and whether they are native."""

    @property
    def name(self) -> str:
        return label(self.root) if isinstance(self.root, Record | Enum | Fixed) else ""

    @cached_property
    def canonical(self) -> str:
        """The Parsing Canonical Form."""
        return canonical(self.root)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the Parsing Canonical Form, in hexadecimal."""
        return sha256(self.canonical)

    @property
    def crc64(self) -> int:
        """Avro's 64-bit fingerprint of the Parsing Canonical Form."""
        return crc64(self.canonical)

    def normalised(self, level: int) -> str:
        match level:
            case 1:
                return dumps(loads(self.text))
            case 2:
                return normalised(self.root, self.known)
            case _:
                raise InvalidSchema(f"There is no level {level} of normalisation.", next="Use 1 or 2.")


def read(text: str, references: Mapping[str, ParsedSchema] | None = None) -> AvroSchema:
    known: dict[str, Named] = {}
    for name, schema in (references or {}).items():
        if not isinstance(schema, AvroSchema):
            raise InvalidSchema(
                f"The reference {name} is not an Avro schema.",
                code="schema.invalid.reference",
                reference=name,
            )
        known |= {**schema.known, **schema.names}
        if isinstance(schema.root, Record | Enum | Fixed):
            known.setdefault(name, schema.root)
    root, names = parse(text, known)
    return AvroSchema(text, root, names, known)
