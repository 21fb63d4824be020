"""Reserved fields: names that a contract keeps free, listed in its metadata as ``confluent:reserved``.

Looked at where ``validateFields`` is set.
"""

from __future__ import annotations

from dragoman.core.contract import Incompatibility
from dragoman.registry.fields import outer_fields
from dragoman.registry.model import Json, StoredSchema

_PROPERTY = "confluent:reserved"


def violations(new: StoredSchema, previous: StoredSchema | None) -> tuple[Incompatibility, ...]:
    """Reserved names that the new schema uses, and those that it no longer reserves."""
    kept = _reserved(new.metadata)
    dropped = [name for name in _reserved(previous.metadata if previous else None) if name not in kept]
    used = outer_fields(new.type, new.text) if kept else frozenset()
    return (
        *(
            Incompatibility(
                "RESERVED_FIELD_REMOVED",
                f"The new schema has reserved field {name} removed from its metadata"
                " which is present in the old schema's metadata.",
            )
            for name in dropped
        ),
        *(
            Incompatibility(
                "RESERVED_FIELD_CONFLICTS_WITH_FIELD",
                f"The new schema has field that conflicts with the reserved field {name}.",
            )
            for name in kept
            if name in used
        ),
    )


def _reserved(metadata: Json | None) -> list[str]:
    listed = ((metadata or {}).get("properties") or {}).get(_PROPERTY)
    return [name for part in str(listed or "").split(",") if (name := part.strip())]
