"""The parts that all versions of AsyncAPI share."""

from __future__ import annotations

import re
from typing import Any

from dragoman.language import syntax as s
from dragoman.language.bindings import protocol_name
from dragoman.language.generators.asyncapi.bind import Bindings
from dragoman.language.generators.asyncapi.describe import message_extensions, without_nothing
from dragoman.language.generators.asyncapi.view import Exchange
from dragoman.language.generators.json_schema import reachable, schema_of, type_schema
from dragoman.language.model import Model
from dragoman.language.pointer import canonical, read_pointer, target
from dragoman.language.shape import shape_of

SCALARS = {"bool": "boolean", "int": "integer", "long": "integer", "float": "number", "double": "number"}


def info(model: Model, endpoint: s.Endpoint | None) -> dict[str, Any]:
    api = model.api
    title = api.name.text if endpoint is None else f"{api.name.text}: {endpoint.name.text}"
    overview = api.overview.value.strip() if api.overview else ""
    if endpoint is not None and endpoint.description:
        overview = f"{endpoint.description.value.strip()}\n\n{overview}".strip()
    return without_nothing(
        {
            "title": title,
            "version": api.version.value if api.version else "0.0.0",
            "description": overview,
            "x-eip-visibility": api.visibility.text if api.visibility else None,
            "x-eip-endpoint-types": [type.text for type in endpoint.types] if endpoint else [],
            "x-eip-roles": [role.text for role in endpoint.roles] if endpoint else [],
        }
    )


def servers_of(model: Model, exchange: Exchange) -> list[str]:
    """The servers at which an exchange takes place."""
    exposures = model.exposures.get(exchange.channel.name.text, [])
    interaction = exchange.interaction
    if interaction is not None and interaction.broker is not None:
        exposures = [(b, e) for b, e in exposures if b.name.text == interaction.broker]
    wanted = {id(exposure) for _, exposure in exposures}
    return [name for name, (_, exposure) in model.servers.items() if id(exposure) in wanted]


def protocol(exposure: s.Exposure) -> str:
    """The protocol's name; a secure scheme in the location makes it the secure one."""
    name = protocol_name(exposure.protocol.text)
    scheme = exposure.location.value.rpartition("://")[0].lower()
    secure = {"amqps": "amqps", "mqtts": "secure-mqtt", "https": "https", "wss": "wss", "stomps": "stomps"}
    return secure.get(scheme, name)


def schemas(model: Model, exchanges: list[Exchange]) -> dict[str, Any]:
    """The data types that the messages of these exchanges need."""
    needed: dict[str, None] = {}
    for exchange in exchanges:
        content = exchange.message.content
        for structure in (content.headers, content.payload):
            for node in s.walk(structure) if structure else ():
                if isinstance(node, s.Reference) and node.type.text not in needed:
                    needed.update(dict.fromkeys(reachable(model, node.type.text)))
    return {name: type_schema(type) for name, type in model.types.items() if name in needed}


_CONTENT_TYPES = {
    "JSON_SCHEMA": "application/json",
    "AVRO_SCHEMA": "application/avro",
    "PROTOCOL_BUFFER": "application/x-protobuf",
    "THRIFT_TYPE": "application/x-thrift",
}
"""By the type system that a payload is structured as."""
DEFAULT_CONTENT_TYPE = _CONTENT_TYPES["AVRO_SCHEMA"]
"""Of payloads that say nothing: ``apply`` registers an Avro schema for them."""


def message(message: s.Message, bindings: Bindings) -> dict[str, Any]:
    content = message.content
    correlation = message.pointed("CORRELATION_ID")
    return without_nothing(
        {
            "name": message.name.text,
            "title": re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", message.name.text),
            "description": message.description.value.strip() if message.description else None,
            "contentType": _CONTENT_TYPES.get(content.type_system.text) if content.type_system else None,
            "headers": _headers(content.headers) if content.headers else None,
            "correlationId": {"location": canonical(correlation.pointer.value)} if correlation else None,
            "bindings": bindings["message"],
            **message_extensions(message),
        }
    ) | {"payload": schema_of(shape_of(content.payload))}


def _headers(structure: s.Structure) -> dict[str, Any]:
    """Headers are an object, whatever was said of them."""
    schema = schema_of(shape_of(structure))
    return schema if schema.get("type") == "object" or "$ref" in schema else {"type": "object"}


def correlate(model: Model, messages: dict[str, Any]) -> None:
    """A correlation that only one side of a request-reply names holds for the other side too."""
    for channel in model.channels.values():
        for one in channel.messages if channel.request_reply else ():
            clause = one.pointed("CORRELATION_ID")
            other = next(each for each in channel.messages if each is not one)
            document = messages.get(other.name.text)
            pointer = read_pointer(clause.pointer.value) if clause else None
            if document is None or pointer is None or "correlationId" in document or clause is None:
                continue
            if target(model, other, pointer) is not None:
                document["correlationId"] = {"location": canonical(clause.pointer.value)}
