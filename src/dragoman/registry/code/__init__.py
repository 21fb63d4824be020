"""Python records from the schema of any format, the same text each time."""

from __future__ import annotations

from typing import NamedTuple

from dragoman.core.format import Format, ParsedSchema
from dragoman.core.registry import Registry, VersionNumber
from dragoman.core.schema import Schema
from dragoman.registry.code.source import source_of
from dragoman.registry.parsing import format_of

__all__ = ["Generated", "generate"]


class Generated(NamedTuple):
    """The code of one contract version, and whether its class gives the same schema back."""

    source: str
    faithful: bool


async def generate(registry: Registry, contract: str, version: VersionNumber = "latest") -> Generated:
    """Raises ``InvalidSchema`` for a schema that no record class can hold."""
    found = await registry.version(contract, version)
    format = format_of(found.schema.type)
    parsed = await _resolve(registry, format, found.schema)
    cls = format.record_class(parsed)
    title = f"{contract}, version {found.version}"
    return Generated(source_of(cls, title), _faithful(format, parsed, cls))


async def _resolve(registry: Registry, format: Format, schema: Schema) -> ParsedSchema:
    """Parse a schema with what it refers to, through the registry's port alone."""
    found = {}
    for reference in schema.references:
        version: VersionNumber = reference.version if reference.version > 0 else "latest"
        target = await registry.version(reference.contract, version)
        found[reference.name] = await _resolve(registry, format, target.schema)
    return format.parse(schema.text, found)


def _faithful(format: Format, parsed: ParsedSchema, cls: type) -> bool:
    return format.parse(format.schema_of(cls)).fingerprint == parsed.fingerprint
