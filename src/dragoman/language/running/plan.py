"""``plan``: what would change so that registry and broker are as the model says. ``apply``: change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from dragoman.core.broker import Broker
from dragoman.core.channel import Channel
from dragoman.core.contract import UpdateOrder
from dragoman.core.errors import ChannelNotFound, IncompatibleSchema, NotFound
from dragoman.core.loading import scheme_of
from dragoman.core.registry import Registry
from dragoman.language.model import Model
from dragoman.language.running.announced import differences
from dragoman.language.running.places import is_at
from dragoman.language.running.wanted import REPLICATION, Wanted, wanted
from dragoman.topology.endpoint import Endpoint


class Action(StrEnum):
    CREATE_CHANNEL = "create channel"
    GROW_CHANNEL = "grow channel"
    ALTER_CHANNEL = "alter channel"
    CREATE_CONTRACT = "create contract"
    NEW_VERSION = "new version"
    REFUSED = "refused"
    """The contract's strategy does not allow the model's schema."""
    DRIFT = "drift"
    """It is different from the model in a way that ``apply`` does not change."""


@dataclass(frozen=True, slots=True)
class Change:
    action: Action
    target: str
    detail: str = ""
    wanted: Wanted | None = None
    channel: Channel | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    changes: tuple[Change, ...]

    @property
    def refused(self) -> tuple[Change, ...]:
        return tuple(each for each in self.changes if each.action is Action.REFUSED)

    @property
    def drift(self) -> tuple[Change, ...]:
        return tuple(each for each in self.changes if each.action is Action.DRIFT)


async def plan(
    model: Model,
    registry: Registry,
    broker: Broker,
    values: Mapping[str, Sequence[str]] | None = None,
    announced: Iterable[Endpoint] | None = None,
) -> Plan:
    """Compare the model with what there is. Changes nothing.

    Channels that the model has at another of its brokers are not looked for at this one.
    ``values`` are those of the parameters in paths. ``announced`` are the endpoints that the discoveries of a
    topology know.
    """
    changes: list[Change] = []
    scheme = scheme_of(broker.url)
    for each in wanted(model, values):
        if is_at(model, each.of, scheme):
            changes += await _channel(each, broker)
        changes += await _contract(each, registry)
    if announced is not None:
        changes += [Change(Action.DRIFT, each.target, each.detail) for each in differences(model, announced)]
    return Plan(tuple(changes))


async def _channel(each: Wanted, broker: Broker) -> list[Change]:
    name = each.channel.name
    # Settings are the broker's own: those for Kafka mean nothing elsewhere.
    settings = dict(each.settings) if scheme_of(broker.url) == "kafka" else {}
    try:
        found = await broker.describe(name)
    except ChannelNotFound:
        detail = ", ".join([f"{each.channel.partitions} partitions", *_assignments(settings)])
        return [Change(Action.CREATE_CHANNEL, name, detail, each, replace(each.channel, settings=settings))]
    changes = []
    settings.pop(REPLICATION, None)
    if each.partitions is not None and found.partitions < each.partitions:
        detail = f"from {found.partitions} to {each.partitions} partitions"
        found = replace(found, partitions=each.partitions)
        changes.append(Change(Action.GROW_CHANNEL, name, detail, each, found))
    elif each.partitions is not None and found.partitions > each.partitions:
        detail = f"{found.partitions} partitions, the model says {each.partitions}"
        changes.append(Change(Action.DRIFT, name, detail + "; partitions never shrink.", each))
    if each.retention is not None and found.retention != each.channel.retention:
        detail = f"keeps messages {_kept(found.retention)}, the model says {_kept(each.channel.retention)}."
        changes.append(Change(Action.DRIFT, name, detail, each))
    other = {key: value for key, value in settings.items() if not _same(found.settings.get(key), value)}
    if other:
        altered = replace(found, settings={**found.settings, **other})
        detail = ", ".join(_assignments(other))
        changes.append(Change(Action.ALTER_CHANNEL, name, detail, each, altered))
    return changes


def _same(found: str | None, wanted: str) -> bool:
    """Kafka may give a list in another order."""
    return found is not None and sorted(found.split(",")) == sorted(wanted.split(","))


def _assignments(settings: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in settings.items()]


def _kept(retention: float | None) -> str:
    return "for ever" if retention is None else f"for {retention:g} seconds"


async def _contract(each: Wanted, registry: Registry) -> list[Change]:
    try:
        contract = await registry.contract(each.contract)
    except NotFound:
        return [Change(Action.CREATE_CONTRACT, each.contract, f"{each.schema.type} schema", each)]
    try:
        version = await registry.find(each.contract, each.schema)
    except NotFound:
        verdict = await registry.check(each.contract, each.schema)
        if not verdict.compatible:
            reasons = " ".join(reason.message for reason in verdict.reasons)
            detail = f"{contract.compatibility} with version {verdict.version}: {reasons}"
            return [Change(Action.REFUSED, each.contract, detail, each)]
        order = _order(each, contract.update_order)
        return [Change(Action.NEW_VERSION, each.contract, order, each)]
    if version.version == contract.version:
        return []
    detail = f"The model has version {version.version}, the latest is {contract.version}."
    return [Change(Action.DRIFT, each.contract, detail, each)]


def _order(each: Wanted, order: UpdateOrder) -> str:
    """Who has to be deployed first."""
    producers, consumers = ", ".join(each.producers), ", ".join(each.consumers)
    match order:
        case UpdateOrder.CONSUMER_FIRST:
            return f"Deploy consumers first ({consumers or 'none known'}), then {producers or 'producers'}."
        case UpdateOrder.PRODUCER_FIRST:
            return f"Deploy producers first ({producers or 'none known'}), then {consumers or 'consumers'}."
        case UpdateOrder.ANY:
            return "Deploy in any order."
        case _:
            return "Nothing is checked, so no order is safe."


async def apply(plan: Plan, registry: Registry, broker: Broker) -> list[Change]:
    """Make the changes, channels first. With anything refused, nothing is changed at all.

    Returns what was done. Doing it again does nothing; drift is left as it is.
    """
    if plan.refused:
        first = plan.refused[0]
        raise IncompatibleSchema(
            f"The contract {first.target!r} does not take the model's schema. {first.detail}",
            next="Change the model, or the contract's compatibility. Nothing was changed.",
        )
    done = []
    for each in sorted(plan.changes, key=lambda each: each.action in _CONTRACTS):
        if each.action is Action.CREATE_CHANNEL and each.channel is not None:
            await broker.create(each.channel)
        elif each.action in (Action.GROW_CHANNEL, Action.ALTER_CHANNEL) and each.channel is not None:
            await broker.alter(each.channel)
        elif each.action in _CONTRACTS and each.wanted is not None:
            await registry.register(each.wanted.contract, each.wanted.schema)
        else:
            continue
        done.append(each)
    return done


_CONTRACTS = (Action.CREATE_CONTRACT, Action.NEW_VERSION)
