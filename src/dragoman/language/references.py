"""Every name in a model: where it is declared, and where it is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.language import syntax as s
from dragoman.language.model import Model


@dataclass(frozen=True, slots=True)
class Occurrence:
    """``kind`` is what the name stands for: a data type, channel, message, event type and so on."""

    name: s.Name
    kind: str
    declares: bool


_KINDS = (
    *(s.Message, s.Reference, s.Exposure, s.Use, s.Uses, s.Channel, s.ReceivedEvent, s.Offer),
    *(s.Consumption, s.Step, s.FlowBinding, s.StepBinding),
)


def occurrences(model: Model) -> Iterator[Occurrence]:
    """All names, in no particular order."""
    yield Occurrence(model.api.name, "API", True)
    for member in model.api.members:
        if isinstance(member, s.Declaration) and not isinstance(member, s.Foreign | s.Broken):
            yield Occurrence(member.name, member.kind, True)
        elif isinstance(member, s.SignalTypes):
            kind = "event type" if member.event else "command type"
            yield from (Occurrence(each.name, kind, True) for each in member.types)
    for node in model.nodes(*_KINDS):
        yield from _in_node(model, node)


def _in_node(model: Model, node: s.Node) -> Iterator[Occurrence]:
    match node:
        case s.Message():
            yield Occurrence(node.name, "message", True)
        case s.Reference():
            yield Occurrence(node.type, "data type", False)
        case s.Exposure():
            for name in node.contracts:
                whole = name.text not in model.channels and name.text == model.api.name.text
                yield Occurrence(name, "API" if whole else "channel", False)
        case s.Use():
            known = node.channel.text in model.messages and node.channel.text not in model.channels
            yield Occurrence(node.channel, "message" if known else "channel", False)
        case s.Uses() if node.broker is not None:
            yield Occurrence(node.broker, "message broker", False)
        case s.Channel():
            for route in (node.dead_letters, node.invalid_messages):
                if route is not None:
                    yield Occurrence(route, "channel", False)
        case s.ReceivedEvent():
            yield Occurrence(node.name, "event type", False)
        case s.Offer() | s.Consumption():
            yield Occurrence(node.contract, "endpoint type", False)
        case s.Step() | s.FlowBinding() | s.StepBinding():
            yield from _in_flow(node)


def _in_flow(node: s.Step | s.FlowBinding | s.StepBinding) -> Iterator[Occurrence]:
    match node:
        case s.Step():
            for events in (node.events, node.emitted):
                yield from (Occurrence(n, "event type", False) for n in (events.names if events else ()))
            commands = node.commands.names if node.commands else ()
            yield from (Occurrence(name, "command type", False) for name in commands)
            if node.subflow is not None:
                yield Occurrence(node.subflow, "flow", False)
        case s.FlowBinding():
            yield Occurrence(node.target, "channel" if node.channel else "endpoint type", False)
            if node.provider is not None:
                yield Occurrence(node.provider, "message broker" if node.channel else "API provider", False)
        case s.StepBinding():
            yield Occurrence(node.signal, "event type" if node.event else "command type", False)
            if not node.operation:
                yield Occurrence(node.target, "message", False)
            yield from (Occurrence(name, "data type", False) for name in node.mediation or ())
