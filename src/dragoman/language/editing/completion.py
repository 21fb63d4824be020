"""What could be written here."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from dragoman.language import words
from dragoman.language.model import Model
from dragoman.language.pointer import pointers
from dragoman.language.tokens import BAD, BLANK, COMMENT, STRING, Token, tokenize

_DECLARATION = re.compile(
    r"^(?:API\s+description|data\s+type|event\s+type|command\s+type|channel|message\s+broker|"
    r"message\s+endpoint|endpoint\s+type|API\s+provider|API\s+client|flow)\b",
    re.MULTILINE,
)
TOP_LEVEL = (
    *("data type", "event type", "command type", "channel", "message broker", "message endpoint"),
    *("endpoint type", "API provider", "API client", "flow"),
)
_CLAUSES = {
    "API": ("version", "usage context", "overview"),
    "data": ("version", "default is"),
    "channel": (
        *("of type", "delivery guarantee", "description", "on path", "with", "dead letters to"),
        *("invalid messages to", "accepts message", "produces message", "request message", "reply message"),
        *("expecting", "delivering", "headers", "payload", "as", "structured as", "where"),
        *("CORRELATION_ID is", "SEQUENCE_ID is", "RETURN_ADDRESS is", "MESSAGE_EXPIRES in", "bindings for"),
    ),
    "message broker": ("description", "exposes", "at location", "via protocol", "bindings", "policy",
                       "realized using", "in"),
    "message endpoint": ("of type", "serves as", "description", "uses channels:", "uses from",
                         "provides channels:", "provides from", "where consumed if",
                         "all subscriptions are durable", "via protocol"),
    "endpoint": ("version", "serves as", "exposes", "operation", "expecting", "delivering", "payload"),
    "flow": ("event", "command", "triggers command", "triggers flow", "emits event", "binding to"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Proposal:
    text: str
    kind: str
    """``keyword``, ``value``, ``pointer``, or what a name stands for."""


def proposals(text: str, offset: int, model: Model) -> list[Proposal]:
    """What fits at a place. Names come from ``model``, which may be of a moment ago."""
    start = _start_of_declaration(text, offset)
    before = text[start:offset]
    tokens = [token for token in tokenize(before).tokens if token.kind != COMMENT]
    inside_string = bool(tokens) and tokens[-1].kind == BAD and tokens[-1].text[0] in "\"'"
    if tokens and (inside_string or (tokens[-1].kind not in (BLANK, STRING) and _is_word(tokens[-1]))):
        tokens.pop()
    significant = [token.text for token in tokens if token.kind != BLANK]
    kind = " ".join(significant[:2])
    if inside_string:
        return _in_string(significant, before, model)
    return _after(significant, kind, model)


def _start_of_declaration(text: str, offset: int) -> int:
    start = 0
    # Declarations start at the left margin in practice; the last one before the cursor counts.
    low = max(0, offset - 20_000)
    for found in _DECLARATION.finditer(text, text.rfind("\n", 0, low) + 1, offset):
        if found.start() <= offset:
            start = found.start()
    return start


def _is_word(token: Token) -> bool:
    return token.text[0].isalpha() or token.text[0] in "_^"


def _in_string(tokens: list[str], before: str, model: Model) -> list[Proposal]:
    if tokens[-1:] not in (["is"], ["if"]):
        return []
    if tokens[:1] == ["channel"]:
        names = re.findall(r"\bmessage\s+(\w+)", before)[-1:]
    else:
        used = [word for word in tokens if word in model.channels or word in model.messages][-1:]
        names = [name for word in used for name in _messages_of(model, word)]
    found = [model.messages[name][1] for name in names if name in model.messages]
    texts = dict.fromkeys(pointer for message in found for pointer in pointers(model, message))
    return [Proposal(pointer, "pointer") for pointer in texts]


def _messages_of(model: Model, name: str) -> list[str]:
    if name in model.channels:
        return [message.name.text for message in model.channels[name].messages]
    return [name]


def _after(tokens: list[str], kind: str, model: Model) -> list[Proposal]:
    last, last_two = tokens[-1:], tokens[-2:]
    values = _values(last_two, kind)
    if values:
        return [Proposal(value, "value") for value in values]
    if last_two == ["letters", "to"] or last_two == ["messages", "to"]:
        type = "DEAD_LETTER" if last_two[0] == "letters" else "INVALID_MESSAGE"
        return [Proposal(n, "channel") for n, c in model.channels.items() if c.has(type)]
    if kind == "message broker" and (last == ["exposes"] or _listing(tokens, "exposes", "at")):
        return [*_names(model, "channel"), Proposal(model.api.name.text, "API")]
    if kind == "message endpoint":
        if last == ["from"]:
            return _names(model, "message broker")
        if last == [":"] or _listing(tokens, ":"):
            return _names(model, "channel") + _names(model, "message")
    if last in (["payload"], ["headers"]) or (kind == "data type" and len(tokens) == 3):
        return _types(model)
    if last in ([":"], ["{"], ["("]) and tokens[-3:-2] != ["with"]:
        return _types(model)
    if last == ["<"] or tokens[-3:-2] == ["with"]:
        return [Proposal(value, "value") for value in words.BASIC_TYPES]
    if kind.startswith("flow") and tokens[-1] in ("event", "events", "command", "commands"):
        names = model.events if tokens[-1].startswith("event") else model.commands
        return [Proposal(name, f"{tokens[-1].rstrip('s')} type") for name in names]
    return _keywords(tokens, kind)


def _values(last_two: list[str], kind: str) -> tuple[str, ...]:
    match last_two:
        case ["of", "type"]:
            return words.ENDPOINT_TYPES if kind == "message endpoint" else words.CHANNEL_TYPES
        case [_, "guarantee"]:
            return words.GUARANTEES
        case ["via", "protocol"] | ["bindings", "for"]:
            return words.PROTOCOLS
        case ["realized", "using"]:
            return words.SECURITY
        case ["serves", "as"]:
            return words.RESOURCE_ROLES
        case ["structured", "as"]:
            return words.TYPE_SYSTEMS
        case ["usage", "context"]:
            return words.VISIBILITIES
        case [_, "as"] if kind.startswith("channel"):
            return words.MESSAGE_TYPES
        case [previous, ","] if previous in words.CHANNEL_TYPES:
            return words.CHANNEL_TYPES
        case [previous, ","] if previous in words.ENDPOINT_TYPES:
            return words.ENDPOINT_TYPES
    return ()


def _listing(tokens: list[str], opening: str, closing: str = "") -> bool:
    """Whether the cursor is behind a comma of a list that ``opening`` has begun, and nothing closed."""
    if tokens[-1:] != [","]:
        return False
    return next((token for token in reversed(tokens) if token in (opening, closing)), "") == opening


def _types(model: Model) -> list[Proposal]:
    roles = [f"{role}<{basic}>" for role in ("D", "ID") for basic in ("string", "int")]
    return [
        *_names(model, "data type"),
        *(Proposal(role, "value") for role in (*roles, *words.ROLES[:4], "P")),
    ]


def _names(model: Model, kind: str) -> list[Proposal]:
    if kind == "message":
        # Only the messages of a request-reply channel are used one by one.
        names = [name for name, (channel, _) in model.messages.items() if channel.request_reply]
    else:
        tables: dict[str, Collection[str]] = {
            "channel": model.channels,
            "message broker": model.brokers,
            "data type": model.types,
        }
        names = list(tables[kind])
    return [Proposal(name, kind) for name in names]


def _keywords(tokens: list[str], kind: str) -> list[Proposal]:
    first = tokens[0] if tokens else ""
    clauses = _CLAUSES.get(kind) or _CLAUSES.get(first) or ()
    return [Proposal(word, "keyword") for word in (*clauses, *TOP_LEVEL)]
