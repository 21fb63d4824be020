"""What a model says about one endpoint: what it may send, what it must handle, and under which conditions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman.client.correlation import read_correlation
from dragoman.client.endpoint import Endpoint
from dragoman.client.headers import REPLY_TO
from dragoman.client.middleware.deduplicate import Deduplicate
from dragoman.client.role import Owned, Sending
from dragoman.client.selection import Selection
from dragoman.core.broker import Capabilities
from dragoman.core.errors import ConfigurationError, NotFound
from dragoman.language import syntax as s
from dragoman.language.generators.code.records import payload_record
from dragoman.language.model import Interaction, Model, load_model
from dragoman.language.path import channel_name, path_names
from dragoman.language.running.conditions import Select
from dragoman.language.running.headers import header_check, needs_id, to_be_given
from dragoman.language.running.parameters import mistyped, pattern, values_in
from dragoman.language.running.payloads import unlike, with_payload_types
from dragoman.language.running.places import broker_url
from dragoman.language.running.wanted import contract_name, payload_schema
from dragoman.language.selection import others, selecting_otherwise

_RETURN_ADDRESSES = (f"$message.header#/{REPLY_TO}", f"$message.headers#/{REPLY_TO}")


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
        self._typed = with_payload_types(model)
        self.endpoint = model.endpoints[endpoint]
        interactions = model.interactions_of(endpoint)
        self.received = [each for each in interactions if each.receives]
        self.sent = [each for each in interactions if not each.receives]
        self._messages = [
            (each, pattern(each.path, typed=False))
            for known in model.channels.values()
            for each in known.messages
        ]
        self._patterns = {id(each): pattern(each.message.path) for each in interactions}

    def receiving(self, channel: str) -> Interaction | None:
        return self._find(self.received, channel)

    def _find(self, interactions: list[Interaction], channel: str) -> Interaction | None:
        """The one with the fewest parameters: `orders/lost` is not the order that is called lost."""
        found = [each for each in interactions if self._patterns[id(each)].fullmatch(channel)]
        return min(found, key=lambda each: self._patterns[id(each)].groups, default=None)

    def _mistyped(self, interactions: list[Interaction], channel: str) -> str:
        found = (reason for each in interactions for reason in mistyped(each.message.path, channel))
        return "".join(f": {reason}" for reason in dict.fromkeys(found))

    def place(self, node: s.Node) -> str:
        """Where something is said: file and line."""
        return f"{self.model.source.name}:{self.model.source.place(node.span.start).line}"

    def broker(self) -> str | None:
        """The place that has all channels of the endpoint."""
        return broker_url(self.model, (*self.received, *self.sent), self.place(self.endpoint))

    def sending(self, channel: str) -> Sending:
        """How messages are sent there. Raises ``ConfigurationError`` if the model does not let it."""
        interaction = self._find(self.sent, channel)
        if interaction is None:
            wrong = self._mistyped(self.sent, channel)
            raise ConfigurationError(
                f"In the model, {self.endpoint.name.text} does not send to {channel!r}{wrong}.",
                code="client.model",
                next="Give the parameter a value."
                if wrong
                else "Let it use or provide the channel in the model.",
                model=self.place(self.endpoint),
            )
        message = interaction.message
        check = header_check(self.model, message, self.place(message))
        return Sending(_expiry(message), _in_parts(message), check, needs_id(self.model, message))

    def owned(self, channel: str) -> Owned | None:
        found = self._carried(channel)
        if found is None:
            return None
        contract = contract_name(channel, payload_record(found))
        schema = payload_schema(self._typed, found)
        return Owned(contract, schema, self.place(found), lambda cls: unlike(self._typed, cls, found))

    def _carried(self, channel: str) -> s.Message | None:
        """The message on a channel of this name, by the path with the fewest parameters."""
        found = [each for each, names in self._messages if names.fullmatch(channel)]
        return min(found, key=lambda each: len(path_names(each.path)), default=None)

    def directed(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint as the model wants it: its letters, guarantee, group, selection and replies."""
        interaction = self.receiving(endpoint.channel)
        if interaction is None:
            return endpoint
        channel, changes = interaction.channel, self._options(endpoint, interaction)
        middleware = endpoint.middleware
        if self.endpoint.has("IDEMPOTENT_RECEIVER") and not _effects_once(endpoint):
            middleware = (Deduplicate(), *middleware)
        reply = _reply_of(interaction)
        correlation, address, lasts = endpoint.correlation, endpoint.reply_to, endpoint.reply_expires_in
        is_named = endpoint.reply_named
        if reply is not None and endpoint.reply is not None:
            is_named = is_named or needs_id(self.model, reply)
            pointed = reply.pointed("CORRELATION_ID")
            correlation = correlation or (read_correlation(pointed.pointer.value) if pointed else None)
            address = address or self._reply_channel(endpoint.channel, interaction, reply)
            lasts = lasts if lasts is not None else _expiry(reply)
        return replace(
            endpoint,
            group=channel.name.text if channel.has("POINT_TO_POINT") else endpoint.group,
            options=replace(endpoint.options, **changes),
            middleware=middleware,
            selection=self._selection(interaction),
            correlation=correlation,
            reply_to=address,
            reply_expires_in=lasts,
            reply_named=is_named,
        )

    def _selection(self, interaction: Interaction) -> Selection | None:
        """What the endpoint wants, and the others of its group that select differently.

        On a path with parameters, the others may take other values and never get these messages. Neither the
        model nor a client can tell. So they count as rivals: a needless dead letter is better than a loss.
        """
        if not interaction.use.conditions:
            return None
        rivals = {}
        if interaction.channel.has("POINT_TO_POINT"):
            rivals = {
                each.endpoint.name.text: Select(each.use.conditions).wants
                for each in selecting_otherwise(self.model, interaction)
            }
        return Selection(Select(interaction.use.conditions).wants, rivals)

    def _is_durable(self, channel: str) -> bool:
        """Whether the model wants the subscription durable, whatever the code says."""
        interaction = self.receiving(channel)
        said = interaction is not None and interaction.use.durable is not None
        return self.endpoint.has("DURABLE_SUBSCRIBER") or said

    def _options(self, endpoint: Endpoint, interaction: Interaction) -> dict[str, Any]:
        channel, changes = interaction.channel, dict[str, Any]()
        for option, name in (("dead_letter", channel.dead_letters), ("invalid", channel.invalid_messages)):
            target = self.model.channels.get(name.text) if name else None
            if target is not None and target.messages:
                # A letter box with the same parameters is the one with the same values.
                given = values_in(interaction.message.path, endpoint.channel)
                changes[option] = channel_name(target.messages[0].path, given)
        if self._is_durable(endpoint.channel):
            changes["durable"] = True
        if channel.guarantee is not None and channel.guarantee.text == "AT_MOST_ONCE":
            changes |= {"deliveries": 1, "retry": replace(endpoint.options.retry, attempts=1), "later": None}
        return changes

    def _reply_channel(self, channel: str, interaction: Interaction, reply: s.Message) -> str:
        """The reply's path with the parameters that the request's channel was given."""
        return channel_name(reply.path, values_in(interaction.message.path, channel))

    def disagreements(self, endpoints: Iterable[Endpoint], broker: Capabilities) -> Iterator[str]:
        """In which ways the code is not what the model says, each with its place in the model."""
        name = self.endpoint.name.text
        yield from self._not_durable(broker)
        for each in endpoints:
            interaction = self.receiving(each.channel)
            if interaction is None:
                place = self.place(self.endpoint)
                wrong = self._mistyped(self.received, each.channel)
                yield f"{each.name}: {name} does not receive from '{each.channel}'{wrong} ({place})."
                continue
            yield from self._differences(each, interaction)
            yield from self._sharing(each, interaction)
            yield from self._promises(each, interaction.channel, broker)

    def unhandled(self, endpoints: Iterable[Endpoint]) -> Iterator[str]:
        """Messages that the endpoint receives and nothing handles. Who polls fetches them when it likes."""
        yield from self._unkept()
        if self.endpoint.has("POLLING_CONSUMER"):
            return
        channels = [each.channel for each in endpoints]
        for interaction in self.received:
            if interaction.message.part == "reply" and not interaction.provides:
                continue
            if not any(map(self._patterns[id(interaction)].fullmatch, channels)):
                message, name = interaction.message.name, self.endpoint.name.text
                yield f"{name} receives '{message.text}', and nothing handles it ({self.place(message)})."

    def _unkept(self) -> Iterator[str]:
        """What the model says of requests and replies, and no client of ours does."""
        for each in (*self.received, *self.sent):
            address = each.message.pointed("RETURN_ADDRESS")
            if address is not None and address.pointer.value not in _RETURN_ADDRESSES:
                said = f"the return address is '{address.pointer.value}', a client has it in '{REPLY_TO}'"
                yield f"{each.message.name.text}: {said} ({self.place(address)})."
        for each in self.sent:
            if each.message.part == "reply":
                yield from self._headers_of_reply(each.message)
        for each in self.received:
            if each.message.part == "reply" and not each.provides and each.use.conditions:
                said = "a reply is for who asked, so no condition can turn it away"
                yield f"{each.message.name.text}: {said} ({self.place(each.use)})."

    def _sharing(self, endpoint: Endpoint, interaction: Interaction) -> Iterator[str]:
        """Selection that would acknowledge what another endpoint of the group may want."""
        shared, selects = interaction.channel.has("POINT_TO_POINT"), endpoint.options.consumed_if is not None
        place = self.place(interaction.use)
        rivals = others(self.model, interaction)
        if selects and shared and rivals:
            said = f"its option consumed_if throws away what {_named(rivals)} of the same group may want"
            yield f"{endpoint.name}: {said}; write the condition in the model, as 'consumed if' ({place})."
        if shared or self._own_group(endpoint):
            return
        rivals = rivals if selects else selecting_otherwise(self.model, interaction)
        if rivals and (selects or interaction.use.conditions):
            name = self.endpoint.name.text
            where = (
                f"the group {endpoint.group!r}" if endpoint.chose_group else "the group of all that name none"
            )
            said = f"it selects messages in {where}, and so may {_named(rivals)}"
            yield f"{endpoint.name}: {said}; name a group of its own, such as group={name!r} ({place})."

    def _own_group(self, endpoint: Endpoint) -> bool:
        """Whether the group has this endpoint's name, as ``Small`` or ``small-2``, and no other's."""
        own = re.compile(rf"{re.escape(self.endpoint.name.text)}(\W.*)?", re.IGNORECASE | re.DOTALL)
        return endpoint.chose_group and own.fullmatch(endpoint.group) is not None

    def _headers_of_reply(self, reply: s.Message) -> Iterator[str]:
        for name in to_be_given(self.model, reply):
            said = f"the model wants the header '{name}', and a reply has none of its own"
            wanted = "make it optional, or part of the payload"
            yield f"{reply.name.text}: {said}; {wanted} ({self.place(reply)})."

    def _not_durable(self, broker: Capabilities) -> Iterator[str]:
        """Channels whose messages the broker would lose, although the model guarantees them."""
        if broker.durable:
            return
        channels = {each.channel.name.text: each.channel for each in (*self.received, *self.sent)}
        for name, channel in channels.items():
            if channel.has("GUARANTEED_DELIVERY"):
                said = f"the broker is not durable, so GUARANTEED_DELIVERY of '{name}' cannot be kept"
                wanted = "use a broker that keeps messages on disk, such as embedded://data"
                yield f"{self.endpoint.name.text}: {said}; {wanted} ({self.place(channel)})."

    def _promises(self, endpoint: Endpoint, channel: s.Channel, broker: Capabilities) -> Iterator[str]:
        """What the model promises, and neither the code nor the broker could keep."""
        place = self.place(channel)
        guarantee = channel.guarantee.text if channel.guarantee else ""
        if guarantee == "EXACTLY_ONCE" and not _effects_once(endpoint):
            wanted = "take a database transaction, or be transactional"
            yield f"{endpoint.name}: the model wants EXACTLY_ONCE, so it has to {wanted} ({place})."
        shared = channel.has("POINT_TO_POINT") and channel.has("GUARANTEED_DELIVERY")
        if shared and not endpoint.options.durable and not self._is_durable(endpoint.channel):
            said = "its group is forgotten with its last member, so GUARANTEED_DELIVERY cannot be kept"
            yield f"{endpoint.name}: {said}; leave durable=False out ({place})."
        if guarantee == "AT_MOST_ONCE" and not broker.delivery_count:
            yield f"{endpoint.name}: the broker does not count, so AT_MOST_ONCE cannot be kept ({place})."
        if self.endpoint.has("TRANSACTIONAL_CLIENT") and not _effects_once(endpoint):
            wanted = "take a database transaction, or be transactional"
            yield f"{endpoint.name}: a TRANSACTIONAL_CLIENT has to {wanted} ({self.place(self.endpoint)})."

    def _differences(self, endpoint: Endpoint, interaction: Interaction) -> Iterator[str]:
        place = self.place(interaction.message)
        letters = interaction.channel.has("DEAD_LETTER") or interaction.channel.has("INVALID_MESSAGE")
        for given in () if letters else endpoint.payload.types:
            for reason in unlike(self._typed, given, interaction.message):
                said = f"{given.__name__} is not the payload of the model: {reason}"
                yield f"{endpoint.name}: {said} ({place})."
        reply = _reply_of(interaction)
        if reply is None:
            return
        if endpoint.reply is None:
            yield f"{endpoint.name}: it returns nothing, the model wants '{reply.name.text}' ({place})."
            return
        for reason in unlike(self._typed, endpoint.reply, reply):
            said = f"{endpoint.reply.__name__} is not the reply of the model: {reason}"
            yield f"{endpoint.name}: {said} ({place})."
        wanted = self._reply_channel(endpoint.channel, interaction, reply)
        if endpoint.reply_to not in (None, wanted):
            said = f"it replies to '{endpoint.reply_to}', the model says '{wanted}'"
            yield f"{endpoint.name}: {said} ({self.place(reply)})."


def open_role(file: Path, name: str) -> Role:
    """The endpoint ``name`` of the model in a file."""
    return Role(load_model(file), name)


def _reply_of(interaction: Interaction) -> s.Message | None:
    """The reply that is owed for what is received."""
    if interaction.message.part != "request":
        return None
    return next((each for each in interaction.channel.messages if each.part == "reply"), None)


def _named(interactions: Iterable[Interaction]) -> str:
    return " and ".join(each.endpoint.name.text for each in interactions)


def _expiry(message: s.Message) -> float | None:
    return float(message.expires.seconds) if message.expires else None


def _in_parts(message: s.Message) -> bool:
    return message.pointed("SEQUENCE_ID") is not None


def _effects_once(endpoint: Endpoint) -> bool:
    """Whether what it does is done once, however often its message comes."""
    return endpoint.transactional or endpoint.transaction is not None
