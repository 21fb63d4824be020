"""Endpoints: what they use exists, is exposed, has someone at its other end, and fits their types."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.language import syntax as s
from dragoman.language.diagnostic import insert
from dragoman.language.lint.rule import Finding, error, info, warning
from dragoman.language.model import Interaction, Model
from dragoman.language.path import path_names
from dragoman.language.running.places import exposures_of
from dragoman.language.selection import selecting_otherwise


@warning("An endpoint uses at least one channel.")
def endpoint_without_channel(model: Model) -> Iterator[Finding]:
    for endpoint in model.of(s.Endpoint):
        if not any(group.uses for group in endpoint.uses):
            yield Finding(f"The endpoint '{endpoint.name.text}' uses no channel.", endpoint.name.span)


@error("An endpoint uses from a broker only what this broker exposes.")
def not_exposed_by_broker(model: Model) -> Iterator[Finding]:
    for endpoint in model.of(s.Endpoint):
        for group in endpoint.uses:
            if group.broker is None or group.broker.text not in model.brokers:
                continue
            for use in group.uses:
                found = model.used(use)
                if found is None:
                    continue
                brokers = {broker.name.text for broker, _ in model.exposures[found[0].name.text]}
                if group.broker.text not in brokers:
                    said = f"The broker '{group.broker.text}' does not expose '{found[0].name.text}'."
                    yield Finding(said, use.channel.span)


@warning("Each message has someone who sends it and someone who receives it.")
def orphan_message(model: Model) -> Iterator[Finding]:
    if not model.endpoints:
        return
    provided = any(each.provides for each in model.interactions)
    routes = {n.text for c in model.of(s.Channel) for n in (c.dead_letters, c.invalid_messages) if n}
    for channel in model.of(s.Channel):
        interactions = model.interactions_by_channel.get(channel.name.text, [])
        for message in channel.messages:
            mine = [each for each in interactions if each.message is message]
            sent = any(not each.receives for each in mine) or channel.name.text in routes
            received = any(each.receives for each in mine)
            if not mine and not sent:
                yield Finding(f"No endpoint sends or receives '{message.name.text}'.", message.name.span)
            elif provided and not sent:
                yield Finding(f"No endpoint sends '{message.name.text}'.", message.name.span)
            elif provided and not received:
                yield Finding(f"No endpoint receives '{message.name.text}'.", message.name.span)


def _received(model: Model, endpoint: s.Endpoint) -> Iterator[tuple[s.Channel, s.Use]]:
    seen: set[str] = set()
    for each in model.interactions_of(endpoint.name.text):
        if each.receives and each.channel.name.text not in seen:
            seen.add(each.channel.name.text)
            yield each.channel, each.use


@warning("A durable subscription is one to a publish-subscribe channel.")
def durable_point_to_point(model: Model) -> Iterator[Finding]:
    for endpoint in model.of(s.Endpoint):
        received = list(_received(model, endpoint))
        # An endpoint may also have other channels; its type then speaks of the publish-subscribe ones.
        all_of_it = endpoint.has("DURABLE_SUBSCRIBER") and all(c.has("POINT_TO_POINT") for c, _ in received)
        for channel, use in received:
            if (all_of_it or use.durable is not None) and channel.has("POINT_TO_POINT"):
                said = f"'{channel.name.text}' is POINT_TO_POINT and keeps its messages anyway."
                yield Finding(f"A durable subscription needs publish-subscribe: {said}", use.channel.span)


@warning("Competing consumers compete on a point-to-point channel.")
def competing_on_publish_subscribe(model: Model) -> Iterator[Finding]:
    for endpoint in model.of(s.Endpoint):
        for channel, use in _received(model, endpoint) if endpoint.has("COMPETING_CONSUMER") else ():
            if channel.has("PUBLISH_SUBSCRIBE"):
                said = f"'{channel.name.text}' is PUBLISH_SUBSCRIBE: every consumer gets each message."
                yield Finding(said, use.channel.span)


@error("Endpoints that share the messages of a point-to-point channel select alike.")
def conflicting_selection(model: Model) -> Iterator[Finding]:
    for each in model.interactions:
        if not (each.receives and each.use.conditions and each.channel.has("POINT_TO_POINT")):
            continue
        # The endpoints may take different values of a parameter; the model does not say.
        if path_names(each.message.path):
            continue
        rivals = [other for other in selecting_otherwise(model, each) if _meet(model, each, other)]
        if rivals:
            names = " and ".join(f"'{other.endpoint.name.text}'" for other in rivals)
            said = (
                f"'{each.endpoint.name.text}' throws away messages of the POINT_TO_POINT channel "
                f"'{each.channel.name.text}' that {names} may want. Give all of them one condition, "
                "give each a channel of its own, or make it PUBLISH_SUBSCRIBE."
            )
            yield Finding(said, each.use.channel.span)


def _meet(model: Model, one: Interaction, other: Interaction) -> bool:
    """Whether two endpoints take the channel's messages at one broker."""
    here, there = exposures_of(model, one), exposures_of(model, other)
    return not here or not there or any(each is exposure for each in here for exposure in there)


@warning("A selective consumer says what it consumes.")
def selective_without_condition(model: Model) -> Iterator[Finding]:
    for endpoint in model.of(s.Endpoint):
        type = next((each for each in endpoint.types if each.text == "SELECTIVE_CONSUMER"), None)
        conditions = any(use.conditions for group in endpoint.uses for use in group.uses)
        if type is not None and not conditions:
            said = f"'{endpoint.name.text}' is a SELECTIVE_CONSUMER, but no 'consumed if' says of what."
            yield Finding(said, type.span)


@info("An endpoint with a condition is a selective consumer.")
def condition_without_selective(model: Model) -> Iterator[Finding]:
    for endpoint in model.of(s.Endpoint):
        use = next((use for group in endpoint.uses for use in group.uses if use.conditions), None)
        if use is None or endpoint.has("SELECTIVE_CONSUMER"):
            continue
        if endpoint.types:
            fix = insert("Add SELECTIVE_CONSUMER", endpoint.types[-1].span.end, ", SELECTIVE_CONSUMER")
        else:
            fix = insert("Add SELECTIVE_CONSUMER", endpoint.name.span.end, "\n  of type SELECTIVE_CONSUMER")
        said = f"'{endpoint.name.text}' has a condition, so it is a SELECTIVE_CONSUMER."
        yield Finding(said, use.channel.span, fix)


@warning("An endpoint is not both polling and event-driven.")
def contradicting_endpoint_types(model: Model) -> Iterator[Finding]:
    for endpoint in model.of(s.Endpoint):
        if endpoint.has("POLLING_CONSUMER") and endpoint.has("EVENT_DRIVEN_CONSUMER"):
            said = f"'{endpoint.name.text}' cannot be both POLLING_CONSUMER and EVENT_DRIVEN_CONSUMER."
            yield Finding(said, endpoint.types[-1].span)


@error("A condition is on a message that the endpoint receives.")
def condition_on_sent_message(model: Model) -> Iterator[Finding]:
    for endpoint in model.of(s.Endpoint):
        receiving = {id(each.use) for each in model.interactions_of(endpoint.name.text) if each.receives}
        for group in endpoint.uses:
            for use in group.uses:
                if use.conditions and model.used(use) and id(use) not in receiving:
                    said = (
                        f"'{endpoint.name.text}' does not receive '{use.channel.text}', so it cannot select."
                    )
                    yield Finding(said, use.channel.span)
