"""What a model says about one endpoint: what it may send, what it must handle, and under which conditions."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman.client.correlation import read_correlation
from dragoman.client.delivery import Delivery
from dragoman.client.endpoint import Endpoint
from dragoman.client.middleware.deduplicate import Deduplicate
from dragoman.client.outcome import DONE, Handler, Outcome
from dragoman.client.role import Sending
from dragoman.core.broker import Capabilities
from dragoman.core.errors import ConfigurationError, NotFound
from dragoman.core.format import Format
from dragoman.core.loading import FORMATS, load
from dragoman.core.message import Message
from dragoman.language import syntax as s
from dragoman.language.bindings import protocol_name
from dragoman.language.generators.code.channels import channel_name
from dragoman.language.generators.code.records import payload_record
from dragoman.language.generators.schemas import schema
from dragoman.language.model import Interaction, Model, load_model
from dragoman.language.path import path_names
from dragoman.language.pointer import read_pointer

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MARK = "0parameter0"
_SCHEMES = {"amqp": "rabbitmq", "kafka": "kafka", "mqtt": "mqtt", "nats": "nats", "redis": "redis"}
"""The brokers of ours that speak a protocol."""


class Role:
    """One endpoint of a model. Its channels are known by name, with any values for their parameters."""

    def __init__(self, model: Model, endpoint: str) -> None:
        if endpoint not in model.endpoints:
            raise NotFound(
                f"The model has no message endpoint {endpoint!r}.",
                code="language.endpoint",
                next=f"It has: {', '.join(model.endpoints) or 'none'}.",
            )
        self.model = model
        self.endpoint = model.endpoints[endpoint]
        interactions = model.interactions_of(endpoint)
        self.received = [each for each in interactions if each.receives]
        self.sent = [each for each in interactions if not each.receives]
        self._patterns = {id(each): _pattern(each.message.path) for each in interactions}

    def receiving(self, channel: str) -> Interaction | None:
        return self._find(self.received, channel)

    def _find(self, interactions: list[Interaction], channel: str) -> Interaction | None:
        return next((each for each in interactions if self._patterns[id(each)].fullmatch(channel)), None)

    def place(self, node: s.Node) -> str:
        """Where something is said: file and line."""
        return f"{self.model.source.name}:{self.model.source.place(node.span.start).line}"

    def selects(self, message: Message, value: object) -> bool:
        """Whether the endpoint wants this message: all of its conditions hold."""
        interaction = self.receiving(message.channel)
        if interaction is None:
            return True
        return all(_holds(condition, message, value) for condition in interaction.use.conditions)

    def broker(self) -> str | None:
        """The first place at which a broker exposes what the endpoint uses, by a protocol that we speak."""
        for interaction in (*self.received, *self.sent):
            for broker, exposure in self.model.exposures[interaction.channel.name.text]:
                if interaction.broker in (None, broker.name.text):
                    scheme = _SCHEMES.get(protocol_name(exposure.protocol.text) or "")
                    place = exposure.location.value.rpartition("://")[2]
                    if scheme is not None:
                        return f"{scheme}://{place}"
        return None

    def sending(self, channel: str) -> Sending:
        """How messages are sent there. Raises ``ConfigurationError`` if the model does not let it."""
        interaction = self._find(self.sent, channel)
        if interaction is None:
            raise ConfigurationError(
                f"In the model, {self.endpoint.name.text} does not send to {channel!r}.",
                code="client.model",
                next="Let it use or provide the channel in the model.",
                model=self.place(self.endpoint),
            )
        return Sending(_expiry(interaction.message), _in_parts(interaction.message))

    def directed(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint as the model wants it: its letters, guarantee, group, selection and replies."""
        interaction = self.receiving(endpoint.channel)
        if interaction is None:
            return endpoint
        channel, changes = interaction.channel, self._options(endpoint, interaction)
        middleware = endpoint.middleware
        if interaction.use.conditions:
            middleware = (self._select, *middleware)
        if self.endpoint.has("IDEMPOTENT_RECEIVER") and not _effects_once(endpoint):
            middleware = (Deduplicate(), *middleware)
        reply = _reply_of(interaction)
        correlation, address, lasts = endpoint.correlation, endpoint.reply_to, endpoint.reply_expires_in
        if reply is not None and endpoint.reply is not None:
            pointed = reply.pointed("CORRELATION_ID")
            correlation = correlation or (read_correlation(pointed.pointer.value) if pointed else None)
            address = address or self._reply_channel(endpoint.channel, interaction, reply)
            lasts = lasts if lasts is not None else _expiry(reply)
        return replace(
            endpoint,
            group=channel.name.text if channel.has("POINT_TO_POINT") else endpoint.group,
            options=replace(endpoint.options, **changes),
            middleware=middleware,
            correlation=correlation,
            reply_to=address,
            reply_expires_in=lasts,
        )

    def _options(self, endpoint: Endpoint, interaction: Interaction) -> dict[str, Any]:
        channel, changes = interaction.channel, dict[str, Any]()
        for option, name in (("dead_letter", channel.dead_letters), ("invalid", channel.invalid_messages)):
            target = self.model.channels.get(name.text) if name else None
            if target is not None and target.messages:
                changes[option] = channel_name(target.messages[0].path)
        if self.endpoint.has("DURABLE_SUBSCRIBER") or interaction.use.durable is not None:
            changes["durable"] = True
        if channel.guarantee is not None and channel.guarantee.text == "AT_MOST_ONCE":
            changes |= {"deliveries": 1, "retry": replace(endpoint.options.retry, attempts=1), "later": None}
        return changes

    def _reply_channel(self, channel: str, interaction: Interaction, reply: s.Message) -> str:
        """The reply's path with the parameters that the request's channel was given."""
        found = self._patterns[id(interaction)].fullmatch(channel)
        names = path_names(interaction.message.path)
        return channel_name(reply.path, dict(zip(names, found.groups() if found else (), strict=False)))

    async def _select(self, delivery: Delivery, next: Handler) -> Outcome:
        return await next(delivery) if self.selects(delivery.message, delivery.value) else DONE

    def disagreements(self, endpoints: Iterable[Endpoint], broker: Capabilities) -> Iterator[str]:
        """In which ways the code is not what the model says, each with its place in the model."""
        name = self.endpoint.name.text
        for each in endpoints:
            interaction = self.receiving(each.channel)
            if interaction is None:
                place = self.place(self.endpoint)
                yield f"{each.name}: {name} does not receive from '{each.channel}' ({place})."
                continue
            yield from self._differences(each, interaction)
            yield from self._promises(each, interaction.channel, broker)

    def unhandled(self, endpoints: Iterable[Endpoint]) -> Iterator[str]:
        """Messages that the endpoint receives and nothing handles. Who polls fetches them when it likes."""
        if self.endpoint.has("POLLING_CONSUMER"):
            return
        channels = [each.channel for each in endpoints]
        for interaction in self.received:
            if interaction.message.part == "reply" and not interaction.provides:
                continue
            if not any(map(self._patterns[id(interaction)].fullmatch, channels)):
                message, name = interaction.message.name, self.endpoint.name.text
                yield f"{name} receives '{message.text}', and nothing handles it ({self.place(message)})."

    def _promises(self, endpoint: Endpoint, channel: s.Channel, broker: Capabilities) -> Iterator[str]:
        """What the model promises, and neither the code nor the broker could keep."""
        place = self.place(channel)
        guarantee = channel.guarantee.text if channel.guarantee else ""
        if guarantee == "EXACTLY_ONCE" and not _effects_once(endpoint):
            wanted = "take a database transaction, or be transactional"
            yield f"{endpoint.name}: the model wants EXACTLY_ONCE, so it has to {wanted} ({place})."
        if guarantee == "AT_MOST_ONCE" and not broker.delivery_count:
            yield f"{endpoint.name}: the broker does not count, so AT_MOST_ONCE cannot be kept ({place})."
        if self.endpoint.has("TRANSACTIONAL_CLIENT") and not _effects_once(endpoint):
            wanted = "take a database transaction, or be transactional"
            yield f"{endpoint.name}: a TRANSACTIONAL_CLIENT has to {wanted} ({self.place(self.endpoint)})."

    def _differences(self, endpoint: Endpoint, interaction: Interaction) -> Iterator[str]:
        place = self.place(interaction.message)
        letters = interaction.channel.has("DEAD_LETTER") or interaction.channel.has("INVALID_MESSAGE")
        for given in () if letters else endpoint.payload.types:
            for reason in self._unlike(given, interaction.message):
                said = f"{given.__name__} is not the payload of the model: {reason}"
                yield f"{endpoint.name}: {said} ({place})."
        reply = _reply_of(interaction)
        if reply is None:
            return
        if endpoint.reply is None:
            yield f"{endpoint.name}: it returns nothing, the model wants '{reply.name.text}' ({place})."
            return
        for reason in self._unlike(endpoint.reply, reply):
            said = f"{endpoint.reply.__name__} is not the reply of the model: {reason}"
            yield f"{endpoint.name}: {said} ({place})."
        wanted = self._reply_channel(endpoint.channel, interaction, reply)
        if endpoint.reply_to not in (None, wanted):
            said = f"it replies to '{endpoint.reply_to}', the model says '{wanted}'"
            yield f"{endpoint.name}: {said} ({self.place(reply)})."

    def _unlike(self, cls: type, message: s.Message) -> list[str]:
        """Why the class cannot stand for the payload: neither may miss what the other one needs."""
        name = payload_record(message)
        if name not in self.model.types:
            return []
        avro: Format = load(FORMATS, "AVRO")()
        theirs = avro.parse(avro.schema_of(cls))
        ours = avro.parse(_renamed(schema(self.model, name, "avro"), name, theirs.text))
        found = [*avro.incompatibilities(ours, theirs), *avro.incompatibilities(theirs, ours)]
        return list(dict.fromkeys(each.message for each in found))


def open_role(file: Path, name: str) -> Role:
    """The endpoint ``name`` of the model in a file."""
    return Role(load_model(file), name)


def _reply_of(interaction: Interaction) -> s.Message | None:
    """The reply that is owed for what is received."""
    if interaction.message.part != "request":
        return None
    return next((each for each in interaction.channel.messages if each.part == "reply"), None)


def _expiry(message: s.Message) -> float | None:
    return float(message.expires.seconds) if message.expires else None


def _in_parts(message: s.Message) -> bool:
    return message.pointed("SEQUENCE_ID") is not None


def _effects_once(endpoint: Endpoint) -> bool:
    """Whether what it does is done once, however often its message comes."""
    return endpoint.transactional or endpoint.transaction is not None


def _renamed(ours: str, name: str, theirs: str) -> str:
    """Our schema under the name of theirs: a class may be named as one likes, its fields count."""
    root = json.loads(theirs)
    renamed = json.loads(ours.replace(f'"{name}"', f'"{root["name"]}"'))
    renamed["namespace"] = root.get("namespace", "")
    return json.dumps(renamed)


def _pattern(path: s.Path) -> re.Pattern[str]:
    marked = channel_name(path, dict.fromkeys(path_names(path), _MARK))
    return re.compile(re.escape(marked).replace(_MARK, r"([A-Za-z0-9_-]+)"))


def _holds(condition: s.Condition, message: Message, value: object) -> bool:
    """What is missing meets no condition. A header is text, and a number where it is compared with one."""
    left = _side(condition.left.value, message, value)
    right: Any = condition.right.value
    if isinstance(right, str) and right.startswith("$message"):
        right = _side(right, message, value)
    if left is None or right is None:
        return False
    try:
        if isinstance(left, str) and not isinstance(right, str):
            left = float(left)
        return _COMPARE[condition.operator](left, right)
    except (TypeError, ValueError):
        return False


def _side(expression: str, message: Message, value: object) -> Any:
    """What an expression points at in a message, or nothing."""
    pointer = read_pointer(expression)
    if pointer is None:
        return None
    if pointer.part == "header":
        found = message.header("/".join(pointer.tokens))
        return None if found is None else found.decode("utf-8", "replace")
    reached: Any = value
    for token in pointer.tokens:
        if isinstance(reached, list | tuple):
            reached = reached[int(token)] if token.isdigit() and int(token[:9]) < len(reached) else None
        else:
            reached = getattr(reached, token, None)
    return reached
