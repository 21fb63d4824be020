"""Messages: directions, and pointers that point at something."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.language import syntax as s
from dragoman.language.diagnostic import Edit, Fix, replace
from dragoman.language.lint.rule import Finding, error, warning
from dragoman.language.model import Model
from dragoman.language.pointer import read_pointer, target
from dragoman.language.tokens import quoted

_FORMAT = "$message.(payload | header)#/<path>"


def _messages(model: Model) -> Iterator[tuple[s.Channel, s.Message]]:
    for channel in model.of(s.Channel):
        for message in channel.messages:
            yield channel, message


def _expected_verb(channel: s.Channel, message: s.Message) -> str | None:
    if message.part == "request" or channel.direction == "accepts":
        return "expecting"
    if message.part == "reply" or channel.direction == "produces":
        return "delivering"
    return None


@warning("A channel that accepts a message expects its payload, one that produces it delivers it.")
def payload_direction(model: Model) -> Iterator[Finding]:
    for channel, message in _messages(model):
        verb = message.content.payload_verb or message.content.verb
        expected = _expected_verb(channel, message)
        if expected and verb.text != expected:
            said = f"The payload of '{message.name.text}' is {verb.text}, it should be {expected}."
            yield Finding(said, verb.span, replace(f"Write '{expected}'", verb.span, expected))


@warning("A channel that accepts a message expects its headers, one that produces it delivers them.")
def header_direction(model: Model) -> Iterator[Finding]:
    for channel, message in _messages(model):
        content = message.content
        expected = _expected_verb(channel, message)
        # With one verb for both, the payload's rule has said it.
        if content.payload_verb is None or expected is None or content.verb.text == expected:
            continue
        said = f"The headers of '{message.name.text}' are {content.verb.text}, they should be {expected}."
        fix = replace(f"Write '{expected}'", content.verb.span, expected)
        yield Finding(said, content.verb.span, fix)


def _expressions(model: Model) -> Iterator[tuple[s.Message, s.Text]]:
    """Each runtime expression with the message it looks into."""
    for _, message in _messages(model):
        for clause in message.where:
            if isinstance(clause, s.Pointed):
                yield message, clause.pointer
    for endpoint in model.of(s.Endpoint):
        for group in endpoint.uses:
            for use in group.uses:
                found = model.used(use)
                for condition in use.conditions if found else ():
                    message = _consumed(model, endpoint, use)
                    yield message, condition.left
                    right = condition.right
                    if isinstance(right, s.Text) and right.value.startswith("$message"):
                        yield message, right


def _consumed(model: Model, endpoint: s.Endpoint, use: s.Use) -> s.Message:
    """The message that a condition speaks of: the one that the endpoint receives."""
    interactions = [each for each in model.interactions_of(endpoint.name.text) if each.use is use]
    received = next((each.message for each in interactions if each.receives), None)
    found = model.used(use)
    assert found is not None
    return received or found[1][0]


@error("A runtime expression has the form $message.payload#/path or $message.header#/path.")
def pointer_format(model: Model) -> Iterator[Finding]:
    for _, text in _expressions(model):
        if read_pointer(text.value) is None:
            said = f"'{text.value}' is not an expression; its form is {_FORMAT}."
            yield Finding(said, text.span, _mended(text))


def _mended(text: s.Text) -> Fix | None:
    """Common slips: no ``$message.``, a dot for the hash, no slash behind it."""
    value = text.value.removeprefix("$").removeprefix("message.")
    part, _, path = value.replace("#", ".").partition(".")
    path = path.lstrip("/.").replace(".", "/")
    candidate = f"$message.{'header' if part.startswith('header') else 'payload'}#/{path}"
    if part not in ("payload", "header", "headers") or not path or read_pointer(candidate) is None:
        return None
    return replace(f"Write '{candidate}'", text.span, quoted(candidate))


@error("A runtime expression points at something in its message.")
def pointer_unresolved(model: Model) -> Iterator[Finding]:
    for message, text in _expressions(model):
        pointer = read_pointer(text.value)
        if pointer is not None and target(model, message, pointer) is None:
            place = "headers have" if pointer.part == "header" else "payload has"
            path = "/" + "/".join(pointer.tokens)
            yield Finding(f"In '{message.name.text}' the {place} no '{path}'.", text.span)


@warning("Request and reply are correlated.")
def correlation_missing(model: Model) -> Iterator[Finding]:
    for channel in model.of(s.Channel):
        if channel.request_reply and not any(m.pointed("CORRELATION_ID") for m in channel.messages):
            said = f"Nothing tells which request a reply on '{channel.name.text}' is for; add CORRELATION_ID."
            yield Finding(said, channel.name.span)


@warning("Both sides of a request-reply carry the correlation identifier.")
def correlation_one_sided(model: Model) -> Iterator[Finding]:
    for channel in model.of(s.Channel):
        for message in channel.messages if channel.request_reply else ():
            clause = message.pointed("CORRELATION_ID")
            other = next((each for each in channel.messages if each is not message), message)
            if clause is None or other.pointed("CORRELATION_ID") is not None:
                continue
            pointer = read_pointer(clause.pointer.value)
            if pointer and target(model, message, pointer) and target(model, other, pointer) is None:
                said = (
                    f"'{other.name.text}' has no '/{'/'.join(pointer.tokens)}', so it cannot be correlated."
                )
                yield Finding(said, clause.pointer.span)


@error("In a request-reply channel the request comes first.")
def reply_before_request(model: Model) -> Iterator[Finding]:
    for channel in model.of(s.Channel):
        if channel.request_reply and channel.messages[0].part == "reply":
            reply, request = channel.messages
            text = model.source.text
            edits = (
                Edit(reply.span, text[slice(*request.span)]),
                Edit(request.span, text[slice(*reply.span)]),
            )
            said = f"In '{channel.name.text}' the reply stands before the request."
            yield Finding(said, reply.name.span, Fix("Put the request first", edits))
