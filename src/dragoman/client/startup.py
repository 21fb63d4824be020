"""Before the first message: every channel, contract and schema checked, every problem told at once."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from itertools import combinations

from dragoman.client.contracts import Contracts
from dragoman.client.contradictions import contradictions
from dragoman.client.controller import Controller
from dragoman.client.correlation import has_place
from dragoman.client.endpoint import Endpoint, subscription_of
from dragoman.client.later import retry_channels
from dragoman.client.options import ClientOptions
from dragoman.client.parameters import Kind, Parameter
from dragoman.core.broker import Broker, check_subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import (
    ChannelNotFound,
    ConfigurationError,
    DragomanError,
    NotFound,
    StartupError,
    Unsupported,
)
from dragoman.core.loading import scheme_of
from dragoman.schema.records import is_record

ALIKE = ("concurrency", "start", "sharing", "durable", "later", "batch_size", "batch_wait")
"""Options that endpoints on one channel must not see differently, if they are in one group."""


class Checks:
    """Gathers problems, each with the place where it was met."""

    def __init__(
        self, broker: Broker, contracts: Contracts, options: ClientOptions, has_database: bool = False
    ) -> None:
        self._has_database = has_database
        self._broker = broker
        self._contracts = contracts
        self._options = options
        self._problems: dict[str, None] = {}
        self._channels: set[str] = set()

    def problem(self, place: str, error: DragomanError) -> None:
        self._problems[f"{place}: {error}"] = None

    def finish(self) -> None:
        """Raise ``StartupError`` if there was any problem."""
        if self._problems:
            many = len(self._problems)
            found = "".join(f"\n  - {problem}" for problem in self._problems)
            raise StartupError(
                f"{many} problem{'s keep' if many > 1 else ' keeps'} the client from starting:{found}"
            )

    async def all(self, controllers: Sequence[Controller]) -> None:
        endpoints = [endpoint for controller in controllers for endpoint in controller.endpoints]
        for controller in controllers:
            for wish in controller.wishes:
                self._wish(controller.name, wish)
                if wish.kind in (Kind.PRODUCER, Kind.OUTBOX):
                    await self._channel(controller.name, wish.channel)
                    await self._contract(controller.name, wish.channel, wish.types[0], writes=True)
        for endpoint in endpoints:
            await self._endpoint(endpoint)
        for one, other in combinations(endpoints, 2):
            if (one.group, one.channel) == (other.group, other.channel):
                self._together(one, other)
            elif one.group == other.group and one.options.durable is not other.options.durable:
                self._conflict(one, other, "differ in 'durable'", "Give one of them another group.")

    async def _endpoint(self, endpoint: Endpoint) -> None:
        name, options = endpoint.name, endpoint.options
        await self._channel(name, endpoint.channel)
        for aside in {
            options.dead_letter_channel(endpoint.channel),
            options.invalid_channel(endpoint.channel),
        }:
            if aside is not None:
                await self._channel(name, aside, partitions=1)
        for parameter in endpoint.parameters:
            self._wish(name, parameter)
            if parameter.kind in (Kind.PRODUCER, Kind.OUTBOX):
                await self._channel(name, parameter.channel)
                await self._contract(name, parameter.channel, parameter.types[0], writes=True)
            elif parameter.kind in (Kind.PAYLOAD, Kind.KEY):
                for cls in filter(is_record, parameter.types):
                    await self._contract(name, endpoint.channel, cls, key=parameter.kind is Kind.KEY)
        if endpoint.reply_to is not None:
            await self._channel(name, endpoint.reply_to)
        if endpoint.reply is not None:
            await self._contract(name, endpoint.reply_contract_channel, endpoint.reply, writes=True)
        elif endpoint.reply_to is not None:
            self.problem(
                name,
                ConfigurationError(
                    f"It replies to {endpoint.reply_to!r} but returns no record.",
                    next="Annotate the return value with the reply's class.",
                ),
            )
        for wrong in contradictions(endpoint):
            self.problem(name, wrong)
        await self._answers(endpoint)
        self._transactions(endpoint)
        await self._later(endpoint)
        self._subscription(endpoint)
        if endpoint.batch:
            self._batch(endpoint)
        if options.deliveries is not None and not self._broker.capabilities.delivery_count:
            self.problem(
                name,
                Unsupported(
                    "The broker does not count deliveries.", next="Leave the option 'deliveries' out."
                ),
            )

    def _wish(self, place: str, wish: Parameter) -> None:
        if wish.kind in (Kind.OUTBOX, Kind.TRANSACTION) and not self._has_database:
            wrong = ConfigurationError(
                f"{wish.name!r} needs a database.",
                next="Give the client one: Client(database='sqlite://...').",
            )
            self.problem(place, wrong)

    def _transactions(self, endpoint: Endpoint) -> None:
        if endpoint.transaction is not None and (
            inspect.iscoroutinefunction(endpoint.function) or inspect.isasyncgenfunction(endpoint.function)
        ):
            wrong: DragomanError = ConfigurationError(
                "It is given a transaction, which would block the event loop.",
                next="Make it a plain 'def': it then runs in a thread.",
            )
            self.problem(endpoint.name, wrong)
        if not endpoint.transactional:
            return
        if not self._broker.capabilities.transactions:
            wrong = Unsupported(
                "The broker has no transactions.",
                next="Use an outbox, or a broker with the capability 'transactions', such as Kafka.",
            )
            self.problem(endpoint.name, wrong)
        if endpoint.options.concurrency > 1 or endpoint.batch or endpoint.transaction is not None:
            wrong = ConfigurationError(
                "A transaction of the broker is for one message after the other, without a database.",
                next="Leave out concurrency, batches and the database's transaction.",
            )
            self.problem(endpoint.name, wrong)

    async def _answers(self, endpoint: Endpoint) -> None:
        """Declared errors have contracts, and a correlation in the payload is in both payloads."""
        for error in filter(is_record, endpoint.raises):
            await self._contract(endpoint.name, endpoint.error_contract_channel(error), error, writes=True)
        place = endpoint.correlation
        if place is None or place.part != "payload":
            return
        for cls in (*endpoint.payload.types, endpoint.reply):
            if cls is not None and is_record(cls) and not has_place(cls, place):
                wrong = ConfigurationError(
                    f"{cls.__qualname__} has nothing at {place}.",
                    next="Point at a field that requests and replies both have.",
                )
                self.problem(endpoint.name, wrong)

    async def _later(self, endpoint: Endpoint) -> None:
        waiting = retry_channels(endpoint, self._broker.capabilities)
        for channel in waiting:
            await self._channel(endpoint.name, channel)
        if waiting and not endpoint.options.durable:
            error = Unsupported(
                "The broker cannot keep messages aside for a group that is not durable.",
                next="Leave out 'later', or make the group durable.",
            )
            self.problem(endpoint.name, error)

    def _batch(self, endpoint: Endpoint) -> None:
        if endpoint.reply is not None or endpoint.raises:
            wrong = ConfigurationError("It takes a batch, so it cannot reply.", next="Return nothing.")
            self.problem(endpoint.name, wrong)
        if endpoint.transaction is not None:
            wrong = ConfigurationError(
                "It takes a batch, of which nobody can say whether it was handled before.",
                next="Take one message at a time, or leave the transaction out.",
            )
            self.problem(endpoint.name, wrong)

    def _subscription(self, endpoint: Endpoint) -> None:
        """What the broker would refuse later."""
        try:
            check_subscription(
                subscription_of(endpoint, (endpoint.channel,), self._options.name),
                self._broker.capabilities,
                scheme_of(self._broker.url),
            )
        except DragomanError as error:
            self.problem(endpoint.name, error)

    async def _channel(self, place: str, channel: str, partitions: int | None = None) -> None:
        if channel in self._channels:
            return
        try:
            if self._options.auto_register_channels:
                await self._broker.create(Channel(channel, partitions or self._options.partitions))
            else:
                await self._broker.describe(channel)
            self._channels.add(channel)
        except ChannelNotFound:
            self.problem(
                place,
                ChannelNotFound(
                    f"There is no channel {channel!r}.",
                    next=f"Run: dragoman channel create {channel}; or set auto_register_channels.",
                ),
            )
        except DragomanError as error:
            self.problem(place, error)

    async def _contract(
        self, place: str, channel: str, cls: type, *, key: bool = False, writes: bool = False
    ) -> None:
        try:
            await self._contracts.bind(channel, cls, key=key, writes=writes)
        except NotFound as error:
            contract = self._contracts.contract_name(channel, cls, key=key)
            self.problem(
                place,
                NotFound(
                    f"The contract {contract!r} has no version with the schema of {cls.__qualname__}.",
                    next="Register it with: dragoman registry register; or set auto_register_schemas.",
                    code=error.code,
                ),
            )
        except DragomanError as error:
            self.problem(place, error)

    def _together(self, one: Endpoint, other: Endpoint) -> None:
        """Two endpoints share what they are given, so they must not want the same, or want it differently."""
        shared = self._taken(one) & self._taken(other)
        raw = bytes in (*one.payload.types, *other.payload.types)
        differing = [name for name in ALIKE if getattr(one.options, name) != getattr(other.options, name)]
        if one.batch is not other.batch:
            self._conflict(one, other, "only one takes batches", "Give one of them another group.")
        if shared or raw:
            what = "the same messages" if shared else "every message as bytes"
            self._conflict(one, other, f"both take {what}", "Give one of them another group.")
        if differing:
            self._conflict(one, other, f"differ in {_listed(differing)}", "Give both the same options.")

    def _taken(self, endpoint: Endpoint) -> set[object]:
        """What an endpoint takes: versions, which two classes may stand for, or classes without one."""
        versions = (
            (cls, self._contracts.version_of(endpoint.channel, cls)) for cls in endpoint.payload.types
        )
        return {cls if version is None else version for cls, version in versions}

    def _conflict(self, one: Endpoint, other: Endpoint, what: str, next: str) -> None:
        error = ConfigurationError(
            f"They share a group, and {what}.", next=next, channel=one.channel, group=one.group
        )
        self.problem(f"{one.name} and {other.name}", error)


def _listed(names: Iterable[str]) -> str:
    return " and ".join(f"{name!r}" for name in names)
