"""Names: unique where they are declared, known where they are used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from dragoman.language import syntax as s
from dragoman.language.diagnostic import Edit, Fix, replace
from dragoman.language.lint.rule import Finding, error, info, warning
from dragoman.language.model import Model


@error("The names of channels, and of the messages of request-reply channels, are unique.")
def duplicate_channel(model: Model) -> Iterator[Finding]:
    names: list[s.Name] = []
    for channel in model.of(s.Channel):
        names.append(channel.name)
        if channel.request_reply:
            names += [message.name for message in channel.messages]
    yield from _repeated(names, "channel name")


@error("The names of messages, data types, brokers, endpoints, flows and events are unique in their kind.")
def duplicate_name(model: Model) -> Iterator[Finding]:
    messages = [m.name for c in model.of(s.Channel) if not c.request_reply for m in c.messages]
    yield from _repeated(messages, "message name")
    kinds: tuple[type[s.Declaration], ...]
    kinds = (s.DataType, s.Broker, s.Endpoint, s.EndpointType, s.Flow, s.Provider, s.ApiClient)
    for kind in kinds:
        yield from _repeated([member.name for member in model.of(kind)], f"{kind.kind} name")
    for event in (True, False):
        groups = [group for group in model.of(s.SignalTypes) if group.event is event]
        names = [each.name for group in groups for each in group.types]
        yield from _repeated(names, "event type name" if event else "command type name")
    for channel in model.of(s.Channel):
        for message in channel.messages:
            parameters = [parameter.name for parameter in message.path.parameters]
            yield from _repeated(parameters, "parameter name")


def _repeated(names: Iterable[s.Name], what: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for name in names:
        if name.text in seen:
            yield Finding(f"Duplicate {what} '{name.text}'.", name.span)
        seen.add(name.text)


@error("A name that is used is declared.")
def unknown_reference(model: Model) -> Iterator[Finding]:
    for name, known, what in _references(model):
        if name.text not in known:
            near = get_close_matches(name.text, known, n=1)
            fix = replace(f"Change to '{near[0]}'", name.span, near[0]) if near else None
            yield Finding(f"There is no {what} '{name.text}'.", name.span, fix)


def _references(model: Model) -> Iterator[tuple[s.Name, Iterable[str], str]]:
    """Each use of a name, the names it may have, and what it stands for."""
    request_reply = [n for n, (channel, _) in model.messages.items() if channel.request_reply]
    usable = {**model.channels, **dict.fromkeys(request_reply)}
    exposable = {**model.channels, model.api.name.text: None}
    for member in model.api.members:
        for node in s.walk(member):
            match node:
                case s.Reference():
                    yield node.type, model.types, "data type"
                case s.Exposure():
                    yield from ((name, exposable, "channel") for name in node.contracts)
                case s.Use():
                    yield node.channel, usable, "channel"
                case s.Uses(broker=s.Name() as broker):
                    yield broker, model.brokers, "message broker"
                case s.Channel():
                    for name in (node.dead_letters, node.invalid_messages):
                        if name is not None:
                            yield name, model.channels, "channel"
                case s.ReceivedEvent():
                    yield node.name, model.events, "event type"
                case s.Offer() | s.Consumption():
                    yield node.contract, model.endpoint_types, "endpoint type"
                case s.Step() | s.FlowBinding() | s.StepBinding():
                    yield from _flow_references(model, node)


def _flow_references(
    model: Model, node: s.Step | s.FlowBinding | s.StepBinding
) -> Iterator[tuple[s.Name, Iterable[str], str]]:
    match node:
        case s.Step():
            for events in (node.events, node.emitted):
                yield from ((name, model.events, "event type") for name in (events.names if events else ()))
            for name in node.commands.names if node.commands else ():
                yield name, model.commands, "command type"
            if node.subflow is not None:
                yield node.subflow, model.flows, "flow"
        case s.FlowBinding():
            known: Iterable[str] = model.channels if node.channel else model.endpoint_types
            yield node.target, known, "channel" if node.channel else "endpoint type"
        case s.StepBinding():
            signals = model.events if node.event else model.commands
            yield node.signal, signals, "event type" if node.event else "command type"
            if not node.operation:
                yield node.target, model.messages, "message"
            yield from ((name, model.types, "data type") for name in node.mediation or ())


@warning("The name of a data type starts with a capital letter.")
def type_name_case(model: Model) -> Iterator[Finding]:
    for type in model.of(s.DataType):
        old = type.name.text
        new = old[0].upper() + old[1:]
        if old != new:
            fix = _rename_type(model, type, new) if new not in model.types else None
            yield Finding(f"The data type '{old}' should start with a capital letter.", type.name.span, fix)


def _rename_type(model: Model, type: s.DataType, new: str) -> Fix:
    nodes = (node for member in model.api.members for node in s.walk(member))
    uses = [node.type for node in nodes if isinstance(node, s.Reference) and node.type.text == type.name.text]
    return Fix(f"Rename to '{new}'", tuple(Edit(name.span, new) for name in (type.name, *uses)))


@warning("Words are spelt as the language spells them today.")
def misspelt_word(model: Model) -> Iterator[Finding]:
    for member in model.api.members:
        for node in s.walk(member):
            if isinstance(node, s.Keyword) and not node.quoted and node.written not in ("", node.text):
                fix = replace(f"Write '{node.text}'", node.span, node.text)
                yield Finding(f"'{node.written}' is an old misspelling of '{node.text}'.", node.span, fix)


@info("A data type is used by a message, an operation or another type.")
def unused_type(model: Model) -> Iterator[Finding]:
    used: set[str] = set()
    for member in model.api.members:
        for node in s.walk(member):
            if isinstance(node, s.Reference):
                used.add(node.type.text)
    for type in model.of(s.DataType):
        if type.name.text not in used:
            yield Finding(f"The data type '{type.name.text}' is not used.", type.name.span)
