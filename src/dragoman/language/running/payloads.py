"""Whether a class can stand for a payload of the model."""

from __future__ import annotations

import copy
import json
from typing import Any, get_origin

from dragoman.core.format import Format
from dragoman.core.loading import FORMATS, load
from dragoman.language import syntax as s
from dragoman.language.generators.code.records import payload_record
from dragoman.language.generators.schemas import schema
from dragoman.language.model import Model
from dragoman.schema.records import is_record

_UNREAD = (bytes, dict)
"""An endpoint may take frames as they come, or plain values of every version."""


def with_payload_types(model: Model) -> Model:
    """The model with a data type also for payloads that are written in place."""
    clone = copy.copy(model)
    clone.types = dict(model.types)
    for channel in model.channels.values():
        for message in channel.messages:
            name = payload_record(message)
            if name not in clone.types:
                payload = message.content.payload
                declared = s.Name(text=name, span=payload.span)
                clone.types[name] = s.DataType(name=declared, structure=payload, span=payload.span)
    return clone


def unlike(typed: Model, cls: type, message: s.Message) -> list[str]:
    """Why the class cannot stand for the payload: neither may miss what the other one needs.

    ``typed`` has a data type for every payload.
    """
    name = payload_record(message)
    ours = json.loads(schema(typed, name, "avro"))
    if (get_origin(cls) or cls) in _UNREAD or not isinstance(ours, dict):
        return []
    if not is_record(cls):
        return ["it is no record"]
    avro: Format = load(FORMATS, "AVRO")()
    theirs = avro.parse(avro.schema_of(cls))
    root = json.loads(theirs.text)
    renamed = _renamed(ours, name, root["name"]) | {"namespace": root.get("namespace", "")}
    wanted = avro.parse(json.dumps(renamed | {"name": root["name"]}))
    found = [*avro.incompatibilities(wanted, theirs), *avro.incompatibilities(theirs, wanted)]
    return list(dict.fromkeys(each.message for each in found))


def _renamed(node: Any, old: str, new: str) -> Any:
    """A schema in which a type has another name: a class may be named as one likes, its fields count."""
    if isinstance(node, str):
        return new if node == old else node
    if isinstance(node, list):
        return [_renamed(each, old, new) for each in node]
    changed = {key: _renamed(node[key], old, new) for key in ("type", "items") if key in node}
    if "fields" in node:
        changed["fields"] = [_renamed(each, old, new) for each in node["fields"]]
    return node | changed
