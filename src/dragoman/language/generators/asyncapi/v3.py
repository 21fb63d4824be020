"""AsyncAPI 3.x: channels, and beside them operations that send or receive, with their replies."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from dragoman.language import syntax as s
from dragoman.language.generators.asyncapi import parts
from dragoman.language.generators.asyncapi.bind import message_bindings, server_bindings
from dragoman.language.generators.asyncapi.describe import (
    channel_extensions,
    operation_extensions,
    operation_text,
    without_nothing,
)
from dragoman.language.generators.asyncapi.security import scheme
from dragoman.language.generators.asyncapi.view import Exchange, address, channel_id, operation_id, other_side
from dragoman.language.model import Model
from dragoman.language.pointer import canonical


def document(model: Model, spec: str, exchanges: list[Exchange], used: list[str]) -> dict[str, Any]:
    servers = {name: pair for name, pair in model.servers.items() if name in used}
    messages = {}
    for each in exchanges:
        bindings = message_bindings(model, each.channel, each.message)
        messages[each.message.name.text] = parts.message(each.message, bindings)
    parts.correlate(model, messages)
    return without_nothing(
        {
            "defaultContentType": parts.DEFAULT_CONTENT_TYPE,
            "servers": {name: _server(*pair) for name, pair in servers.items()},
            "channels": _channels(model, exchanges),
            "operations": _operations(model, exchanges),
            "components": without_nothing(
                {
                    "messages": messages,
                    "schemas": parts.schemas(model, exchanges),
                    "securitySchemes": {
                        policy.name.text: scheme(policy, (3, 0))
                        for _, exposure in servers.values()
                        for policy in exposure.policies
                    },
                }
            ),
        }
    )


def _server(broker: s.Broker, exposure: s.Exposure) -> dict[str, Any]:
    host, path = _host_and_path(exposure.address)
    return without_nothing(
        {
            "host": host,
            "pathname": path,
            "protocol": parts.protocol(exposure),
            "description": broker.description.value.strip() if broker.description else None,
            "security": [{"$ref": f"#/components/securitySchemes/{p.name.text}"} for p in exposure.policies],
            "bindings": server_bindings(exposure),
        }
    )


def _host_and_path(location: str) -> tuple[str, str]:
    """A location in its parts; what is no address is the host as it stands."""
    try:
        split = urlsplit(location if "://" in location else f"//{location}")
    except ValueError:
        return location, ""
    return split.netloc or location, split.path


def _channels(model: Model, exchanges: list[Exchange]) -> dict[str, Any]:
    channels: dict[str, Any] = {}
    for each in exchanges:
        id, name = channel_id(each.channel, each.message), each.message.name.text
        if id not in channels:
            channels[id] = _channel(model, each)
        channels[id]["messages"][name] = {"$ref": f"#/components/messages/{name}"}
    return channels


def _channel(model: Model, exchange: Exchange) -> dict[str, Any]:
    channel, message = exchange.channel, exchange.message
    names = parts.servers_of(model, exchange)
    several = len(model.servers) > 1
    where = address(message.path)
    # Where the request says where to reply, the reply's channel has no address of its own.
    elsewhere = message.part == "reply" and _return_address(channel) is not None
    described = without_nothing(
        {
            "title": channel.name.text,
            "description": channel.description.value.strip() if channel.description else None,
            "servers": [{"$ref": f"#/servers/{name}"} for name in names] if several else [],
            "parameters": (
                {} if elsewhere else {each.name.text: _parameter(each) for each in message.path.parameters}
            ),
            "bindings": message_bindings(model, channel, message)["channel"],
            **channel_extensions(channel),
            **({"x-eip-path": where} if elsewhere else {}),
        }
    )
    return {"address": None if elsewhere else where, "messages": {}, **described}


def _return_address(channel: s.Channel) -> s.Pointed | None:
    request = next((each for each in channel.messages if each.part == "request"), None)
    return request.pointed("RETURN_ADDRESS") if request else None


def _parameter(parameter: s.Parameter) -> dict[str, Any]:
    """Parameters are strings in 3.x; the type is kept as an extension and in words."""
    description = parameter.description.value.strip() if parameter.description else ""
    type = parts.SCALARS.get(parameter.basic, "string")
    return {"description": f"{description} ({type})".strip(), "x-eip-type": parameter.basic}


def _operations(model: Model, exchanges: list[Exchange]) -> dict[str, Any]:
    """A request and its reply are one operation, named after the request."""
    present = {(each.message.name.text, each.receives): each for each in exchanges}
    operations: dict[str, Any] = {}
    for each in exchanges:
        other = other_side(each)
        answer = present.get((other.name.text, not each.receives)) if other else None
        if each.message.part == "reply" and answer is not None:
            continue
        operations[operation_id(each)] = _operation(model, each, answer)
    return operations


def _operation(model: Model, exchange: Exchange, answer: Exchange | None) -> dict[str, Any]:
    bindings = message_bindings(model, exchange.channel, exchange.message)
    return without_nothing(
        {
            "action": "receive" if exchange.receives else "send",
            "channel": {"$ref": _channel_ref(exchange)},
            "description": operation_text(exchange),
            "messages": [{"$ref": _message_ref(exchange)}],
            "reply": _reply(answer) if answer else None,
            "bindings": bindings["operation"],
            **operation_extensions(exchange),
        }
    )


def _reply(answer: Exchange) -> dict[str, Any]:
    address = _return_address(answer.channel)
    return without_nothing(
        {
            "address": {"location": canonical(address.pointer.value)} if address else None,
            "channel": {"$ref": _channel_ref(answer)},
            "messages": [{"$ref": _message_ref(answer)}],
        }
    )


def _channel_ref(exchange: Exchange) -> str:
    return f"#/channels/{channel_id(exchange.channel, exchange.message)}"


def _message_ref(exchange: Exchange) -> str:
    return f"{_channel_ref(exchange)}/messages/{exchange.message.name.text}"
