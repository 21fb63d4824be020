"""What AsyncAPI cannot say: as extensions for programs, as sentences for people."""

from __future__ import annotations

from typing import Any

from dragoman.language import syntax as s
from dragoman.language.generators.asyncapi.view import Exchange, other_side
from dragoman.language.model import Model
from dragoman.language.printer import flow_steps, inline_value


def without_nothing(value: dict[str, Any]) -> dict[str, Any]:
    """Only the entries that say something."""
    return {key: item for key, item in value.items() if item not in (None, "", [], {})}


def channel_extensions(channel: s.Channel) -> dict[str, Any]:
    return without_nothing(
        {
            "x-eip-channel": channel.name.text,
            "x-eip-channel-types": [type.text for type in channel.types],
            "x-eip-delivery-guarantee": channel.guarantee.text if channel.guarantee else None,
            "x-eip-dead-letter-channel": channel.dead_letters.text if channel.dead_letters else None,
            "x-eip-invalid-message-channel": (
                channel.invalid_messages.text if channel.invalid_messages else None
            ),
        }
    )


def message_extensions(message: s.Message) -> dict[str, Any]:
    content = message.content
    sequence, address = message.pointed("SEQUENCE_ID"), message.pointed("RETURN_ADDRESS")
    return without_nothing(
        {
            "x-eip-message-type": content.message_type.text if content.message_type else None,
            "x-eip-type-system": content.type_system.text if content.type_system else None,
            "x-eip-sequence-id": sequence.pointer.value if sequence else None,
            "x-eip-return-address": address.pointer.value if address else None,
            "x-eip-expires-seconds": message.expires.seconds if message.expires else None,
        }
    )


def operation_extensions(exchange: Exchange) -> dict[str, Any]:
    """What an endpoint says about how it uses the channel."""
    if exchange.interaction is None:
        return {}
    endpoint, use = exchange.interaction.endpoint, exchange.interaction.use
    return without_nothing(
        {
            "x-eip-endpoint-types": [type.text for type in endpoint.types],
            "x-eip-conditions": _conditions(use) if exchange.receives else [],
            "x-eip-durable": True if use.durable and exchange.receives else None,
        }
    )


def _conditions(use: s.Use) -> list[dict[str, Any]]:
    return [
        {"left": each.left.value, "operator": each.operator, "right": each.right.value}
        for each in use.conditions
    ]


def operation_text(exchange: Exchange) -> str:
    """The description of an operation: the model's words, then what the extensions say."""
    channel, message = exchange.channel, exchange.message
    parts = [channel.description.value.strip()] if channel.description else []
    if message.description:
        parts.append(message.description.value.strip())
    parts += _sentences(channel, message)
    other = other_side(exchange)
    if other is None:
        parts.append("One-way channel: no reply is expected.")
    elif message.part == "request":
        parts.append(f"Request. The reply is {other.name.text}.")
    else:
        parts.append(f"Reply. The request is {other.name.text}.")
    if exchange.interaction is not None and exchange.receives:
        use = exchange.interaction.use
        parts += [
            f"Consumed if {each.left.value} {each.operator} {inline_value(each.right)}."
            for each in use.conditions
        ]
        parts += ["The subscription is durable."] if use.durable else []
    return "\n\n".join(parts)


def _sentences(channel: s.Channel, message: s.Message) -> list[str]:
    found = []
    if channel.types:
        found.append(f"Channel types: {', '.join(type.text for type in channel.types)}.")
    if channel.guarantee:
        found.append(f"Delivery guarantee: {channel.guarantee.text}.")
    if channel.dead_letters:
        found.append(f"Dead letters go to {channel.dead_letters.text}.")
    if channel.invalid_messages:
        found.append(f"Invalid messages go to {channel.invalid_messages.text}.")
    for clause in message.where:
        if isinstance(clause, s.Expires):
            unit = "minute" if clause.unit == "m" else "second"
            found.append(f"Messages expire after {clause.amount} {unit}{'' if clause.amount == 1 else 's'}.")
        elif clause.word == "SEQUENCE_ID":
            found.append(f"The sequence is told by {clause.pointer.value}.")
        elif clause.word == "RETURN_ADDRESS":
            found.append(f"The return address is {clause.pointer.value}.")
    return found


def root_extensions(model: Model) -> dict[str, Any]:
    """The endpoints and flows of the system, which a document about one application leaves out."""
    endpoints = {
        name: without_nothing(
            {
                "description": endpoint.description.value if endpoint.description else None,
                "types": [type.text for type in endpoint.types],
                "roles": [role.text for role in endpoint.roles],
                "sends": _exchanged(model, name, receives=False),
                "receives": _exchanged(model, name, receives=True),
            }
        )
        for name, endpoint in model.endpoints.items()
    }
    flows = {name: flow_steps(flow) for name, flow in model.flows.items()}
    return without_nothing({"x-eip-endpoints": endpoints, "x-eip-flows": flows})


def _exchanged(model: Model, endpoint: str, receives: bool) -> list[str]:
    found = (each for each in model.interactions_of(endpoint) if each.receives is receives)
    return list(dict.fromkeys(each.message.name.text for each in found))
