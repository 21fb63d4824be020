"""What a model says about one endpoint: what it may send, what it must handle, and under which conditions."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dragoman.client.controller import bind
from dragoman.client.endpoint import Endpoint
from dragoman.client.options import ClientOptions
from dragoman.core.errors import NotFound
from dragoman.core.format import Format
from dragoman.core.loading import FORMATS, load
from dragoman.core.message import Message
from dragoman.language import syntax as s
from dragoman.language.generators.code.channels import channel_name
from dragoman.language.generators.code.records import payload_record
from dragoman.language.generators.schemas import schema
from dragoman.language.model import Interaction, Model
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

    def sending(self, channel: str) -> Interaction | None:
        return self._find(self.sent, channel)

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

    def expires_in(self, channel: str) -> float | None:
        """Seconds until a message that is sent here is no longer of use."""
        interaction = self.sending(channel)
        expires = interaction.message.expires if interaction else None
        return float(expires.seconds) if expires else None

    def disagreements(self, controllers: Iterable[object], options: ClientOptions) -> Iterator[str]:
        """In which ways the code is not what the model says, each with its place in the model."""
        endpoints = [each for given in controllers for each in bind(given, options).endpoints]
        name = self.endpoint.name.text
        for each in endpoints:
            interaction = self.receiving(each.channel)
            if interaction is None:
                place = self.place(self.endpoint)
                yield f"{each.name}: {name} does not receive from '{each.channel}' ({place})."
            else:
                yield from self._differences(each, interaction)
        for interaction in self.received:
            if interaction.message.part == "reply" and not interaction.provides:
                continue
            pattern = self._patterns[id(interaction)]
            if not any(pattern.fullmatch(each.channel) for each in endpoints):
                message = interaction.message.name
                yield f"{name} receives '{message.text}', and nothing handles it ({self.place(message)})."

    def _differences(self, endpoint: Endpoint, interaction: Interaction) -> Iterator[str]:
        place = self.place(interaction.message)
        for given in endpoint.payload.types:
            for reason in self._unlike(given, interaction.message):
                said = f"{given.__name__} is not the payload of the model: {reason}"
                yield f"{endpoint.name}: {said} ({place})."
        reply = next((m for m in interaction.channel.messages if m.part == "reply"), None)
        if interaction.message.part != "request" or reply is None:
            return
        if endpoint.reply is None:
            yield f"{endpoint.name}: it returns nothing, the model wants '{reply.name.text}' ({place})."
            return
        for reason in self._unlike(endpoint.reply, reply):
            said = f"{endpoint.reply.__name__} is not the reply of the model: {reason}"
            yield f"{endpoint.name}: {said} ({place})."

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


def _renamed(ours: str, name: str, theirs: str) -> str:
    """Our schema under the name of theirs: a class may be named as one likes, its fields count."""
    root = json.loads(theirs)
    renamed = json.loads(ours.replace(f'"{name}"', f'"{root["name"]}"'))
    renamed["namespace"] = root.get("namespace", "")
    return json.dumps(renamed)


def _pattern(path: s.Path) -> re.Pattern[str]:
    marked = channel_name(path, dict.fromkeys(path_names(path), _MARK))
    return re.compile(re.escape(marked).replace(_MARK, r"[A-Za-z0-9_-]+"))


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
