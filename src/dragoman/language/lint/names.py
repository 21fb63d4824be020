"""Names: unique where they are declared, known where they are used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import cache

from dragoman.language import syntax as s
from dragoman.language.diagnostic import Edit, Fix, replace
from dragoman.language.lint.rule import Finding, error, info, warning
from dragoman.language.model import Model
from dragoman.language.printer import escaped
from dragoman.language.references import occurrences


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
    declared: dict[str, set[str]] = {}
    found = list(occurrences(model))
    for each in found:
        if each.declares:
            declared.setdefault(each.kind, set()).add(each.name.text)

    @cache
    def nearest(kind: str, name: str) -> str | None:
        return next(iter(get_close_matches(name, sorted(declared.get(kind, ())), n=1)), None)

    for each in found:
        if each.declares or each.name.text in declared.get(each.kind, ()):
            continue
        near = nearest(each.kind, each.name.text)
        fix = replace(f"Change to '{near}'", each.name.span, escaped(near)) if near else None
        yield Finding(f"There is no {each.kind} '{each.name.text}'.", each.name.span, fix)
    yield from _one_way_messages_used(model)


def _one_way_messages_used(model: Model) -> Iterator[Finding]:
    """Only a request or a reply is used by itself; a one-way channel is used by its own name."""
    for endpoint in model.of(s.Endpoint):
        for group in endpoint.uses:
            for use in group.uses:
                found = None if use.channel.text in model.channels else model.messages.get(use.channel.text)
                if found is not None and not found[0].request_reply:
                    channel = found[0].name.text
                    fix = replace(f"Change to '{channel}'", use.channel.span, escaped(channel))
                    said = f"There is no channel '{use.channel.text}', only a message of '{channel}'."
                    yield Finding(said, use.channel.span, fix)


@warning("The name of a data type starts with a capital letter.")
def type_name_case(model: Model) -> Iterator[Finding]:
    uses = _type_uses(model)
    for type in model.of(s.DataType):
        old = type.name.text
        new = old[0].upper() + old[1:]
        if old != new:
            names = (type.name, *uses.get(old, ()))
            edits = tuple(Edit(name.span, escaped(new)) for name in names)
            fix = Fix(f"Rename to '{new}'", edits) if new not in model.types else None
            yield Finding(f"The data type '{old}' should start with a capital letter.", type.name.span, fix)


def _type_uses(model: Model) -> dict[str, list[s.Name]]:
    uses: dict[str, list[s.Name]] = {}
    mediated = (name for node in model.nodes(s.StepBinding) for name in node.mediation or ())
    for name in (*(node.type for node in model.nodes(s.Reference)), *mediated):
        uses.setdefault(name.text, []).append(name)
    return uses


@warning("Words are spelt as the language spells them today.")
def misspelt_word(model: Model) -> Iterator[Finding]:
    for node in model.nodes(s.Keyword):
        if not node.quoted and node.written not in ("", node.text):
            fix = replace(f"Write '{node.text}'", node.span, node.text)
            yield Finding(f"'{node.written}' is an old misspelling of '{node.text}'.", node.span, fix)


@info("A data type is used by a message, an operation or another type.")
def unused_type(model: Model) -> Iterator[Finding]:
    used = _type_uses(model)
    for type in model.of(s.DataType):
        if type.name.text not in used:
            yield Finding(f"The data type '{type.name.text}' is not used.", type.name.span)
