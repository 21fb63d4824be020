"""Channels: types that go together, paths, guarantees, and where failed messages go."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dragoman.language import syntax as s
from dragoman.language.diagnostic import Fix, insert, replace
from dragoman.language.lint.rule import Finding, error, info, warning
from dragoman.language.model import Model
from dragoman.language.path import channel_name, path_names
from dragoman.language.tokens import Span

_EXCLUDES = {
    "DEAD_LETTER": (
        "POINT_TO_POINT",
        "PUBLISH_SUBSCRIBE",
        "DATA_TYPE",
        "INVALID_MESSAGE",
        "GUARANTEED_DELIVERY",
    ),
    "INVALID_MESSAGE": ("POINT_TO_POINT", "PUBLISH_SUBSCRIBE", "DATA_TYPE", "GUARANTEED_DELIVERY"),
    "POINT_TO_POINT": ("PUBLISH_SUBSCRIBE",),
}
_NOT_WITH_REPLY = ("PUBLISH_SUBSCRIBE", "INVALID_MESSAGE", "DEAD_LETTER")


@error("The paths of channels are unique.")
def duplicate_path(model: Model) -> Iterator[Finding]:
    first: dict[str, s.Text] = {}
    for channel in model.of(s.Channel):
        for message in channel.messages:
            path, name = message.path.text.value, channel_name(message.path)
            other = first.setdefault(name, message.path.text)
            if other is not message.path.text:
                said = f"Duplicate channel path '{path}'."
                said += "" if other.value == path else f" Its channel is {name}, as that of '{other.value}'."
                yield Finding(said, message.path.text.span)


@error("A path says something.")
def empty_path(model: Model) -> Iterator[Finding]:
    for channel in model.of(s.Channel):
        for message in channel.messages:
            if not message.path.text.value.strip("/ "):
                yield Finding(f"The path of '{message.name.text}' is empty.", message.path.text.span)


@error("Messages live for a while.")
def no_time_to_live(model: Model) -> Iterator[Finding]:
    for channel in model.of(s.Channel):
        for message in channel.messages:
            if message.expires is not None and message.expires.seconds == 0:
                said = f"'{message.name.text}' expires at once, so nobody receives it."
                yield Finding(said, message.expires.span)


@error("A request-reply channel is neither publish-subscribe, nor for dead letters or invalid messages.")
def request_reply_type(model: Model) -> Iterator[Finding]:
    for channel in model.of(s.Channel):
        for type in channel.types if channel.request_reply else ():
            if type.text in _NOT_WITH_REPLY:
                message = f"The request-reply channel '{channel.name.text}' cannot be of type {type.text}."
                yield Finding(message, type.span, _without_type(model, channel, type))


@error("The types of a channel go together.")
def incompatible_channel_types(model: Model) -> Iterator[Finding]:
    for channel in model.of(s.Channel):
        types = [type.text for type in channel.types]
        for main, excluded in _EXCLUDES.items():
            for type in channel.types if main in types else ():
                if type.text in excluded:
                    message = f"The channel '{channel.name.text}' is {main}, so it cannot be {type.text}."
                    yield Finding(message, type.span)


@warning("A channel has each of its types once.")
def repeated_channel_type(model: Model) -> Iterator[Finding]:
    for channel in model.of(s.Channel):
        seen: set[str] = set()
        for type in channel.types:
            if type.text in seen:
                message = f"The channel '{channel.name.text}' has type {type.text} already."
                yield Finding(message, type.span, _without_type(model, channel, type))
            seen.add(type.text)


def _without_type(model: Model, channel: s.Channel, type: s.Keyword) -> Fix | None:
    """Take a type out of the list, with its comma."""
    index = next(i for i, each in enumerate(channel.types) if each is type)
    if index > 0:
        span = Span(channel.types[index - 1].span.end, type.span.end)
    elif len(channel.types) > 1:
        span = Span(type.span.start, channel.types[1].span.start)
    else:
        start = model.source.text.rfind("of", channel.span.start, type.span.start)
        span = Span(start, type.span.end)
    return replace(f"Remove {type.text}", span, "")


@error("Each parameter in a path is described.")
def undescribed_parameter(model: Model) -> Iterator[Finding]:
    for channel in model.of(s.Channel):
        for message in channel.messages:
            path = message.path
            described = {parameter.name.text for parameter in path.parameters}
            for name in path_names(path):
                if name not in described:
                    said = f"The path parameter '{name}' is not described; write 'with {name}: string'."
                    yield Finding(said, path.text.span, _describe(path, name))


def _describe(path: s.Path, name: str) -> Fix | None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return None
    word = ", " if path.parameters else " with "
    return insert(f"Describe '{name}'", path.span.end, f"{word}{name}: string")


@error("Each parameter that is described is in the path.")
def parameter_not_in_path(model: Model) -> Iterator[Finding]:
    for channel in model.of(s.Channel):
        for message in channel.messages:
            names = path_names(message.path)
            for parameter in message.path.parameters:
                if parameter.name.text not in names:
                    said = f"The parameter '{parameter.name.text}' is not in the path."
                    yield Finding(said, parameter.name.span)


@warning("A channel with guaranteed delivery says which guarantee it gives.")
def guarantee_missing(model: Model) -> Iterator[Finding]:
    for channel in model.of(s.Channel):
        guarantee = channel.guarantee
        if not channel.has("GUARANTEED_DELIVERY") or (guarantee and guarantee.text != "UNKNOWN"):
            continue
        said = (
            f"The GUARANTEED_DELIVERY channel '{channel.name.text}' should say AT_LEAST_ONCE or EXACTLY_ONCE."
        )
        title = "Guarantee AT_LEAST_ONCE"
        if guarantee:
            fix = replace(title, guarantee.span, "AT_LEAST_ONCE")
        else:
            fix = insert(title, channel.types[-1].span.end, "\n  delivery guarantee AT_LEAST_ONCE")
        yield Finding(said, guarantee.span if guarantee else channel.name.span, fix)


@error("A channel with guaranteed delivery does not deliver at most once.")
def guarantee_contradicted(model: Model) -> Iterator[Finding]:
    for channel in model.of(s.Channel):
        guarantee = channel.guarantee
        if channel.has("GUARANTEED_DELIVERY") and guarantee and guarantee.text == "AT_MOST_ONCE":
            said = f"The GUARANTEED_DELIVERY channel '{channel.name.text}' must not deliver AT_MOST_ONCE."
            fix = replace("Guarantee AT_LEAST_ONCE", guarantee.span, "AT_LEAST_ONCE")
            yield Finding(said, guarantee.span, fix)


@info("A channel either accepts or produces.")
def two_way_channel(model: Model) -> Iterator[Finding]:
    for channel in model.of(s.Channel):
        if channel.direction == "accepts and produces":
            said = f"The channel '{channel.name.text}' both accepts and produces; two channels are clearer."
            yield Finding(said, channel.name.span)


@error("Dead letters and invalid messages go to a channel of that type.")
def wrong_error_channel(model: Model) -> Iterator[Finding]:
    for channel in model.of(s.Channel):
        routes = ((channel.dead_letters, "DEAD_LETTER"), (channel.invalid_messages, "INVALID_MESSAGE"))
        for name, type in routes:
            target = model.channels.get(name.text) if name else None
            if name is not None and target is not None and not target.has(type):
                yield Finding(f"The channel '{name.text}' is not of type {type}.", name.span)


@warning("Something feeds each dead-letter and invalid-message channel.")
def unfed_error_channel(model: Model) -> Iterator[Finding]:
    routes = (name for c in model.of(s.Channel) for name in (c.dead_letters, c.invalid_messages) if name)
    fed = {name.text for name in routes}
    fed |= {each.channel.name.text for each in model.interactions if not each.receives}
    for channel in model.of(s.Channel):
        type = next((each for each in channel.types if each.text in ("DEAD_LETTER", "INVALID_MESSAGE")), None)
        if type is not None and channel.name.text not in fed:
            word = "dead letters" if type.text == "DEAD_LETTER" else "invalid messages"
            said = (
                f"Nothing feeds the {type.text} channel '{channel.name.text}'; a channel says '{word} to' it."
            )
            yield Finding(said, channel.name.span)


@warning("A broker exposes each channel.")
def unexposed_channel(model: Model) -> Iterator[Finding]:
    if not model.brokers:
        return
    for channel in model.of(s.Channel):
        if not model.exposures.get(channel.name.text):
            yield Finding(f"No broker exposes the channel '{channel.name.text}'.", channel.name.span)
