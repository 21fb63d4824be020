"""Brokers: security policies, locations, and bindings that the protocol knows."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from dragoman.language import syntax as s
from dragoman.language.bindings import KEYS, known_keys, protocol_name
from dragoman.language.diagnostic import replace
from dragoman.language.lint.rule import Finding, error, warning
from dragoman.language.model import Model
from dragoman.language.pointer import read_pointer
from dragoman.language.tokens import Span

_WITH_PLACE = ("API_KEY", "HTTP_API_KEY")
_COUNTS = ("partitions", "replicas", "retention.ms")
_FOR_EVER = ("retention.ms", -1)
_USER_PLACES = ("user", "password", "query", "header", "cookie")


def _policies(model: Model) -> Iterator[s.Policy]:
    for broker in model.of(s.Broker):
        for exposure in broker.exposures:
            yield from exposure.policies


@warning("An API key says where it is found.")
def api_key_without_place(model: Model) -> Iterator[Finding]:
    for policy in _policies(model):
        if policy.mechanism.text in _WITH_PLACE and policy.place is None:
            said = f"The policy '{policy.name.text}' should say in which header or field the key is."
            yield Finding(said, policy.mechanism.span)


@error("The place of an API key is a runtime expression, or one of user, password, query, header, cookie.")
def api_key_place_format(model: Model) -> Iterator[Finding]:
    for policy in _policies(model):
        place = policy.place
        if policy.mechanism.text not in _WITH_PLACE or place is None or place.value in _USER_PLACES:
            continue
        if read_pointer(place.value) is None:
            said = f"'{place.value}' is no place for a key; its form is $message.(payload | header)#/<path>."
            yield Finding(said, place.span)


@warning("Only an API key has a place.")
def needless_policy_place(model: Model) -> Iterator[Finding]:
    for policy in _policies(model):
        if (
            policy.mechanism.text not in _WITH_PLACE
            and policy.place is not None
            and not policy.mechanism.quoted
        ):
            span = Span(policy.mechanism.span.end, policy.place.span.end)
            said = f"{policy.mechanism.text} needs no place."
            yield Finding(said, policy.place.span, replace("Remove the place", span, ""))


@warning("No two brokers stand at one location.")
def shared_location(model: Model) -> Iterator[Finding]:
    owners: dict[tuple[str, str], str] = {}
    for broker in model.of(s.Broker):
        for exposure in broker.exposures:
            key = (exposure.location.value, exposure.protocol.text)
            owner = owners.setdefault(key, broker.name.text)
            if owner != broker.name.text:
                said = f"The brokers '{owner}' and '{broker.name.text}' stand at one location."
                yield Finding(said, exposure.location.span)


@warning("Bindings have the keys that their protocol's binding specification has.")
def binding_key(model: Model) -> Iterator[Finding]:
    for channel in model.of(s.Channel):
        for message in channel.messages:
            for bindings in message.bindings:
                if bindings.protocol:
                    yield from _unknown_keys(bindings, bindings.protocol.text, server=False)
    for broker in model.of(s.Broker):
        for exposure in broker.exposures:
            if exposure.bindings:
                yield from _unknown_keys(exposure.bindings, exposure.protocol.text, server=True)


def _unknown_keys(bindings: s.Bindings, written: str, server: bool) -> Iterator[Finding]:
    protocol = protocol_name(written)
    if protocol not in KEYS:
        return
    known = known_keys(protocol, server)
    for entry in bindings.object.entries:
        key = entry.key.value
        if key in known or key.startswith("x-"):
            continue
        near = get_close_matches(key, known, n=1)
        fix = replace(f"Write '{near[0]}'", entry.key.span, f'"{near[0]}"') if near else None
        place = "broker" if server else "channel"
        allowed = ", ".join(known[1:]) or "none"
        yield Finding(
            f"{written} bindings of a {place} have no '{key}'; they have: {allowed}.", entry.key.span, fix
        )


@error("Partitions, replicas and retention of Kafka's topics are numbers above zero.")
def binding_value(model: Model) -> Iterator[Finding]:
    """They are created with these; a retention of -1 is for ever."""
    for channel in model.of(s.Channel):
        for message in channel.messages:
            for bindings in message.bindings:
                if bindings.protocol and protocol_name(bindings.protocol.text) == "kafka":
                    yield from _wrong_values(bindings.object)


def _wrong_values(object: s.Object) -> Iterator[Finding]:
    for entry in object.entries:
        key, value = entry.key.value, s.plain(entry.value)
        if key == "topicConfiguration" and isinstance(entry.value, s.Object):
            yield from _wrong_values(entry.value)
        elif key == "topicConfiguration":
            yield Finding("The topicConfiguration is an object in braces.", entry.value.span)
        elif key in _COUNTS and not (type(value) is int and (value > 0 or (key, value) == _FOR_EVER)):
            yield Finding(f"{key} is a whole number above zero.", entry.value.span)
