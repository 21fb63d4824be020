"""What we write into schemas beside JSON Schema's own words, under a keyword that validators ignore."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.core.errors import InvalidSchema
from dragoman.schema.markers import Unit

EXTENSION = "x-dragoman"


class Extension(msgspec.Struct, frozen=True, rename="camel"):
    """All optional. The limits are those of values that travel as text."""

    type: str | None = None
    precision: int | None = None
    scale: int = 0
    size: int | None = None
    name: str | None = None
    unit: Unit = Unit.MICROS
    local: bool = False
    elapsed: bool = False
    text: bool = False
    aliases: tuple[str, ...] = ()
    fallback: str | None = None
    min_bytes: int | None = None
    max_bytes: int | None = None
    min: str | None = None
    exclusive_min: str | None = None
    max: str | None = None
    exclusive_max: str | None = None


def extension_of(schema: dict[str, Any]) -> Extension:
    """Raises ``InvalidSchema`` for one that is not ours."""
    try:
        return msgspec.convert(schema.get(EXTENSION, {}), Extension)
    except msgspec.ValidationError as error:
        raise InvalidSchema(f"{EXTENSION} is not understood: {error}.", next="Remove it.") from None
