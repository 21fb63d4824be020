"""What a model wants: channels with their settings, and the contracts of what they carry."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.core.channel import Channel
from dragoman.core.schema import Schema
from dragoman.language import syntax as s
from dragoman.language.bindings import protocol_name
from dragoman.language.generators.code.channels import channel_name
from dragoman.language.generators.code.records import payload_record
from dragoman.language.generators.schemas import schema
from dragoman.language.model import Model
from dragoman.schema.naming import Naming

_FORMATS = {
    "AVRO_SCHEMA": "avro",
    "JSON_SCHEMA": "json",
    "PROTOCOL_BUFFER": "protobuf",
    "THRIFT_TYPE": "thrift",
}
_DEFAULT_PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """One message of the model, as registry and broker see it."""

    message: s.Message
    channel: Channel
    contract: str
    schema: Schema
    fixed: bool
    """Whether the model itself says how many partitions there are."""
    producers: tuple[str, ...]
    consumers: tuple[str, ...]


def wanted(model: Model) -> Iterator[Wanted]:
    typed = _with_payload_types(model)
    for channel in model.channels.values():
        for message in channel.messages:
            name = channel_name(message.path)
            system = message.content.type_system
            format = _FORMATS.get(system.text if system else "", "avro")
            record = payload_record(message)
            partitions, retention = _settings(message)
            interactions = model.interactions_by_channel[channel.name.text]
            mine = [each for each in interactions if each.message is message]
            yield Wanted(
                message,
                Channel(name, partitions or _DEFAULT_PARTITIONS, retention),
                Naming.CHANNEL.for_value(name, record),
                Schema(format.upper(), schema(typed, record, format)),
                partitions is not None,
                tuple(each.endpoint.name.text for each in mine if not each.receives),
                tuple(each.endpoint.name.text for each in mine if each.receives),
            )


def _with_payload_types(model: Model) -> Model:
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


def _settings(message: s.Message) -> tuple[int | None, float | None]:
    """Partitions and retention, where the bindings for Kafka say them."""
    for bindings in message.bindings:
        if bindings.protocol and protocol_name(bindings.protocol.text) == "kafka":
            said = bindings.object.plain()
            partitions = said.get("partitions")
            configuration = said.get("topicConfiguration")
            kept = configuration.get("retention.ms") if isinstance(configuration, dict) else None
            return (
                partitions if isinstance(partitions, int) and partitions > 0 else None,
                kept / 1000 if isinstance(kept, int | float) and kept > 0 else None,
            )
    return None, None
