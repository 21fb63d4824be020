"""What a model wants: channels with their settings, and the contracts of what they carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf
from typing import Any

from dragoman.core.channel import Channel
from dragoman.core.errors import ConfigurationError
from dragoman.core.schema import Schema
from dragoman.language import syntax as s
from dragoman.language.bindings import DEFAULT_PARTITIONS, partitions_of, protocol_name
from dragoman.language.generators.code.records import payload_record
from dragoman.language.generators.schemas import schema
from dragoman.language.model import Model
from dragoman.language.path import channel_name, path_names
from dragoman.language.running.parameters import VALUE
from dragoman.language.running.payloads import with_payload_types
from dragoman.schema.naming import Naming

_FORMATS = {
    "AVRO_SCHEMA": "avro",
    "JSON_SCHEMA": "json",
    "PROTOCOL_BUFFER": "protobuf",
    "THRIFT_TYPE": "thrift",
}
REPLICATION = "replication.factor"
"""Chosen when a channel is created, and not told by those that are there."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One message of the model, as registry and broker see it."""

    of: s.Channel
    message: s.Message
    channel: Channel
    contract: str
    schema: Schema
    partitions: int | None
    """What the model itself says, if it does."""
    retention: float | None
    """The same, in seconds; for ever is infinite."""
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the channel on Kafka."""


def wanted(model: Model, values: Mapping[str, Sequence[str]] | None = None) -> Iterator[Wanted]:
    """``values`` are those of the parameters in paths: there is one channel for each combination of them.

    A parameter without values stands for itself, as one more value would.
    """
    values = values or {}
    _check(model, values)
    typed = with_payload_types(model)
    for channel in model.channels.values():
        for message in channel.messages:
            record, text = payload_record(message), payload_schema(typed, message)
            partitions, (retention, settings) = partitions_of(message), _settings(message)
            interactions = model.interactions_by_channel[channel.name.text]
            mine = [each for each in interactions if each.message is message]
            for name in _names(message.path, values):
                yield Wanted(
                    channel,
                    message,
                    Channel(name, partitions or DEFAULT_PARTITIONS, None if retention == inf else retention),
                    contract_name(name, record),
                    text,
                    partitions,
                    retention,
                    tuple(each.endpoint.name.text for each in mine if not each.receives),
                    tuple(each.endpoint.name.text for each in mine if each.receives),
                    settings,
                )


def payload_schema(typed: Model, message: s.Message) -> Schema:
    """What ``apply`` registers for a message. ``typed`` has a data type for every payload."""
    system = message.content.type_system
    format = _FORMATS.get(system.text if system else "", "avro")
    return Schema(format.upper(), schema(typed, payload_record(message), format))


def contract_name(channel: str, record: str) -> str:
    return Naming.CHANNEL.for_value(channel, record)


def _names(path: s.Path, values: Mapping[str, Sequence[str]]) -> Iterator[str]:
    names = path_names(path)
    for chosen in product(*(dict.fromkeys(values.get(name) or (name,)) for name in names)):
        yield channel_name(path, dict(zip(names, chosen, strict=True)))


def _check(model: Model, values: Mapping[str, Sequence[str]]) -> None:
    paths = (message.path for channel in model.channels.values() for message in channel.messages)
    known = {name: None for path in paths for name in path_names(path)}
    for name, given in values.items():
        if name not in known:
            raise ConfigurationError(
                f"No path of the model has a parameter {name!r}.",
                code="language.parameter",
                next=f"There are: {', '.join(known) or 'none'}.",
            )
        for value in given:
            if not VALUE.fullmatch(value):
                raise ConfigurationError(
                    f"{value!r} cannot be a value of {name!r}.",
                    code="language.parameter",
                    next="Use letters, digits, '-' and '_'.",
                )


def _settings(message: s.Message) -> tuple[float | None, dict[str, str]]:
    """Retention and all other settings, where the bindings for Kafka say them."""
    for bindings in message.bindings:
        if bindings.protocol and protocol_name(bindings.protocol.text) == "kafka":
            said = bindings.object.plain()
            replicas = said.get("replicas")
            configuration = said.get("topicConfiguration")
            topic = dict(configuration) if isinstance(configuration, dict) else {}
            kept = topic.pop("retention.ms", None)
            settings = {name: _text(value) for name, value in topic.items()}
            if isinstance(replicas, int):
                settings[REPLICATION] = str(replicas)
            return (
                _seconds(kept) if isinstance(kept, int | float) else None,
                settings,
            )
    return None, {}


def _seconds(retention: float) -> float:
    """Kafka's milliseconds, of which a negative number is for ever."""
    return retention / 1000 if retention > 0 else inf


def _text(value: Any) -> str:
    """As Kafka wants it: lists with commas, truth in small letters."""
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
