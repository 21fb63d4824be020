"""How a member of a group is set up: its settings, and where a group without a position begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.adapters.kafka.administration import Administration, Place
from dragoman.adapters.kafka.configuration import SERVER_SIDE, refuse_unheeded, subscription_settings
from dragoman.core.broker import Subscription
from dragoman.core.errors import ConfigurationError
from dragoman.core.partitioning import check_durability, start_at_offset

_DEFAULTS = {
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 2_000,
    "queued.min.messages": 20_000,
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 100,
    "fetch.queue.backoff.ms": 20,
    "topic.metadata.refresh.interval.ms": 10_000,
}


def consumer_settings(
    settings: Mapping[str, Any], subscription: Subscription, owned: bool = False
) -> dict[str, Any]:
    """Raises ``ConfigurationError`` for options that contradict each other, here and in the URL."""
    asked = subscription_settings(subscription.options)
    wanted = _owned(settings, asked, subscription) if owned else {**settings, **asked}
    refuse_unheeded(wanted, group=subscription.group)
    chosen: dict[str, Any] = {
        **_defaults(wanted.get("group.protocol")),
        **wanted,
        "group.id": subscription.group,
        # We set positions; where retention has passed one, nothing that is left is skipped.
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": "read_committed",
    }
    if subscription.member:
        chosen.setdefault("client.id", subscription.member)
    return chosen


def _owned(
    settings: Mapping[str, Any], asked: Mapping[str, Any], subscription: Subscription
) -> dict[str, Any]:
    """One member has it all, which only members can agree on: what the URL says of servers is for others."""
    if asked.get("group.protocol") == "consumer":
        raise ConfigurationError(
            f"group.protocol=consumer has no effect on a subscription that is {subscription.sharing}: its "
            "members agree on the one that receives.",
            code="configuration.option",
            next="Leave it out of the subscription's options.",
            group=subscription.group,
        )
    general = {name: value for name, value in settings.items() if name != "group.remote.assignor"}
    return {**general, **asked, "group.protocol": "classic"}


def _defaults(protocol: str | None) -> dict[str, Any]:
    if protocol == "consumer":
        return {name: value for name, value in _DEFAULTS.items() if name not in SERVER_SIDE}
    return {**_DEFAULTS, "partition.assignment.strategy": "cooperative-sticky"}


def settle(administration: Administration, subscription: Subscription) -> None:
    """Forget what a temporary group left whose members died. Raises if the group is of the other kind."""
    group, channels = subscription.group, subscription.channels
    durable = administration.durability(group, channels)
    if durable is False:
        administration.forget_empty(group)
        durable = administration.durability(group, channels)
    if durable is not None:
        check_durability(subscription, durable)


def starts(administration: Administration, subscription: Subscription) -> dict[Place, int]:
    """Where a group begins in each partition that it has no position in. Raises ``ChannelNotFound``."""
    places = [
        (channel, partition)
        for channel in subscription.channels
        for partition in administration.partitions(channel)
    ]
    start = subscription.start
    if start == "latest":
        return administration.begin(subscription.group, administration.ends(places), subscription.durable)
    if isinstance(start, int):
        found = administration.at_time(places, start)
        return administration.begin(subscription.group, found, subscription.durable)
    first = administration.earliest(places)
    if isinstance(start, Mapping):
        last = administration.ends(places)
        for channel in subscription.channels:
            own = [place for place in places if place[0] == channel]
            bounds = [(first[place], last[place]) for place in own]
            first.update(zip(own, start_at_offset(start, channel, bounds), strict=True))
    return first
