"""Schemas that the registry's tests share."""

from __future__ import annotations

import json

from dragoman.core.schema import Schema


def avro(*fields: tuple[str, object] | tuple[str, object, object], name: str = "Order") -> Schema:
    """An Avro record; a third member of a field is its default."""
    described = [
        {"name": field[0], "type": field[1], **({"default": field[2]} if len(field) == 3 else {})}
        for field in fields
    ]
    text = json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": described})
    return Schema("AVRO", text)


ORDER = avro(("id", "long"))
ORDER_WITH_NOTE = avro(("id", "long"), ("note", ["null", "string"], None))
ORDER_WITH_TOTAL = avro(("id", "long"), ("total", "double"))
