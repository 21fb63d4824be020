"""AsyncAPI 2.x: one channel item per address; ``publish`` is what the application receives."""

from __future__ import annotations

from typing import Any

from dragoman.language import syntax as s
from dragoman.language.generators.asyncapi import parts
from dragoman.language.generators.asyncapi.bind import message_bindings, server_bindings
from dragoman.language.generators.asyncapi.describe import (
    channel_extensions,
    operation_extensions,
    operation_text,
    without_nothing,
)
from dragoman.language.generators.asyncapi.security import scheme, scopes_of
from dragoman.language.generators.asyncapi.view import Exchange, address, operation_id
from dragoman.language.model import Model


def document(model: Model, spec: str, exchanges: list[Exchange], used: list[str]) -> dict[str, Any]:
    version = (2, int(spec.split(".")[1]))
    servers = {name: pair for name, pair in model.servers.items() if name in used}
    messages = {}
    for each in exchanges:
        bindings = message_bindings(model, each.channel, each.message)
        messages[each.message.name.text] = parts.message(each.message, bindings)
    parts.correlate(model, messages)
    return without_nothing(
        {
            "servers": {name: _server(*pair) for name, pair in servers.items()},
            "defaultContentType": parts.DEFAULT_CONTENT_TYPE,
        }
    ) | {
        "channels": _channels(model, exchanges, version),
        "components": without_nothing(
            {
                "messages": messages,
                "schemas": parts.schemas(model, exchanges),
                "securitySchemes": {
                    policy.name.text: scheme(policy, version)
                    for _, exposure in servers.values()
                    for policy in exposure.policies
                },
            }
        ),
    }


def _server(broker: s.Broker, exposure: s.Exposure) -> dict[str, Any]:
    return without_nothing(
        {
            "url": exposure.address,
            "protocol": parts.protocol(exposure),
            "description": broker.description.value.strip() if broker.description else None,
            "security": [{policy.name.text: _scopes(policy)} for policy in exposure.policies],
            "bindings": server_bindings(exposure),
        }
    )


def _scopes(policy: s.Policy) -> list[str]:
    """Only OAuth and OpenID Connect requirements name scopes."""
    if not policy.mechanism.text.startswith(("OAUTH", "OPEN_ID")) or policy.settings is None:
        return []
    return list(scopes_of(policy.settings.plain()))


def _channels(model: Model, exchanges: list[Exchange], version: tuple[int, int]) -> dict[str, Any]:
    channels: dict[str, dict[str, Any]] = {}
    for each in exchanges:
        item = channels.setdefault(address(each.message.path), _item(model, each, version))
        bindings = message_bindings(model, each.channel, each.message)
        item["publish" if each.receives else "subscribe"] = without_nothing(
            {
                "operationId": operation_id(each),
                "description": operation_text(each),
                "bindings": bindings["operation"],
                **operation_extensions(each),
                "message": {"$ref": f"#/components/messages/{each.message.name.text}"},
            }
        )
    return channels


def _item(model: Model, exchange: Exchange, version: tuple[int, int]) -> dict[str, Any]:
    channel, message = exchange.channel, exchange.message
    names = parts.servers_of(model, exchange)
    # Channels name their servers since version 2.2.
    servers = {"servers" if version >= (2, 2) else "x-eip-servers": names}
    return without_nothing(
        {
            "description": channel.description.value.strip() if channel.description else None,
            **(servers if len(model.servers) > 1 else {}),
            "parameters": {each.name.text: _parameter(each) for each in message.path.parameters},
            "bindings": message_bindings(model, channel, message)["channel"],
            **channel_extensions(channel),
        }
    )


def _parameter(parameter: s.Parameter) -> dict[str, Any]:
    description = parameter.description.value.strip() if parameter.description else None
    type = parts.SCALARS.get(parameter.basic, "string")
    return without_nothing({"description": description, "schema": {"type": type}})
