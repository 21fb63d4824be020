"""Protocol bindings, each where its specification wants it, with what the model implies filled in."""

from __future__ import annotations

from typing import Any

from dragoman.language import syntax as s
from dragoman.language.bindings import (
    DEFAULT_PARTITIONS,
    KEYS,
    PLACES,
    known_keys,
    partitions_of,
    place_of,
    protocol_name,
)
from dragoman.language.generators.asyncapi.view import address
from dragoman.language.model import Model

Bindings = dict[str, dict[str, dict[str, Any]]]
"""By place, protocol and key."""

_SCHEMAS = {("kafka", "groupId"), ("kafka", "clientId"), ("kafka", "key")}
"""Keys whose value is a schema; a plain value is written as the schema of that one value."""
_QOS = {"AT_MOST_ONCE": 0, "AT_LEAST_ONCE": 1, "EXACTLY_ONCE": 2}


def message_bindings(model: Model, channel: s.Channel, message: s.Message) -> Bindings:
    """All bindings of a message and its channel."""
    found: Bindings = {place: {} for place in PLACES}
    for written in message.bindings:
        protocol = _binding_name(written.protocol.text if written.protocol else "")
        for key, value in written.object.plain().items():
            if (protocol, key) in _SCHEMAS and not isinstance(value, dict):
                value = {"type": "string", "enum": [value]}
            place = place_of(protocol, key)
            plain = place or key == "bindingVersion" or key.startswith("x-") or protocol.startswith("x-")
            name = key if plain else f"x-{key}"
            found[place or "channel"].setdefault(protocol, {})[name] = value
    for protocol in _protocols(model, channel):
        _imply(found, protocol, channel, message)
    if "amqp" in found["channel"]:
        found["channel"]["amqp"] = _consistent_amqp(found["channel"]["amqp"])
    return found


def _binding_name(written: str) -> str:
    """A protocol that AsyncAPI has no bindings for is written as an extension."""
    protocol = protocol_name(written)
    return protocol if protocol in KEYS else f"x-{protocol}"


def _protocols(model: Model, channel: s.Channel) -> list[str]:
    exposures = model.exposures.get(channel.name.text, [])
    return list(dict.fromkeys(protocol_name(exposure.protocol.text) for _, exposure in exposures))


def _imply(found: Bindings, protocol: str, channel: s.Channel, message: s.Message) -> None:
    """What channel types, guarantee and expiry mean for a protocol, where nothing else was said."""
    guarantee = channel.guarantee.text if channel.guarantee else ""
    expires = message.expires
    if protocol == "amqp":
        operation: dict[str, Any] = {}
        if expires:
            operation["expiration"] = expires.seconds * 1000
        if channel.has("GUARANTEED_DELIVERY"):
            operation["deliveryMode"] = 2
        _add(found, "operation", protocol, operation)
        _add(found, "channel", protocol, _amqp_channel(message, found["channel"].get("amqp", {})))
    elif protocol == "kafka":
        # The frame is the one of Confluent's serializers, and a point-to-point channel is one group.
        frame = {"schemaIdLocation": "payload", "schemaIdPayloadEncoding": "confluent"}
        _add(found, "message", protocol, frame)
        if channel.has("POINT_TO_POINT"):
            group = {"type": "string", "enum": [channel.name.text]}
            found["operation"][protocol] = found["operation"].get(protocol, {}) | {"groupId": group}
    elif protocol == "mqtt":
        operation = {"qos": _QOS[guarantee]} if guarantee in _QOS else {}
        if expires:
            operation["messageExpiryInterval"] = expires.seconds
        _add(found, "operation", protocol, operation)
    elif protocol == "jms" and channel.has("POINT_TO_POINT"):
        _add(found, "channel", protocol, {"destinationType": "queue"})
    elif protocol == "jms" and channel.has("PUBLISH_SUBSCRIBE"):
        _add(found, "channel", protocol, {"destinationType": "topic"})


def _add(found: Bindings, place: str, protocol: str, implied: dict[str, Any]) -> None:
    if implied:
        found[place][protocol] = implied | found[place].get(protocol, {})


def _amqp_channel(message: s.Message, said: dict[str, Any]) -> dict[str, Any]:
    """A channel is an exchange. A message's routing key is the number of its partition, in plain digits.

    AsyncAPI takes the channel's address for the routing key, and has no field for others.
    """
    if "is" in said or "exchange" in said or "queue" in said:
        return {}
    exchange = {"name": address(message.path), "type": "direct", "durable": True}
    keys = [str(number) for number in range(partitions_of(message) or DEFAULT_PARTITIONS)]
    return {"is": "routingKey", "exchange": exchange, "x-routingKeys": keys}


def _consistent_amqp(said: dict[str, Any]) -> dict[str, Any]:
    """A queue has a queue, a routing key an exchange; what belongs to the other kind is kept beside."""
    kind = said.get("is") or ("routingKey" if "exchange" in said else "queue" if "queue" in said else None)
    if kind is None:
        return said
    wanted, other = ("queue", "exchange") if kind == "queue" else ("exchange", "queue")
    result = {"is": kind} | {key: value for key, value in said.items() if key not in ("is", other)}
    result.setdefault(wanted, {"name": ""} if wanted == "queue" else {"name": "", "type": "topic"})
    return result | ({f"x-{other}": said[other]} if other in said else {})


def server_bindings(exposure: s.Exposure) -> dict[str, Any]:
    if exposure.bindings is None:
        return {}
    protocol = _binding_name(exposure.protocol.text)
    known = known_keys(protocol, server=True)
    said = exposure.bindings.object.plain()
    named = {key if key in known or key.startswith("x-") else f"x-{key}": said[key] for key in said}
    return {protocol: named}
