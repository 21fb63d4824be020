"""From checked endpoints to consumers: one per group, with a dispatcher per channel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from dragoman.client.burial import Bury, burial
from dragoman.client.composition import compose, guarded
from dragoman.client.consumer import Consumer, Pace
from dragoman.client.contracts import Contracts
from dragoman.client.delivery import Delivery
from dragoman.client.dispatch import Candidate, Dispatcher, Failures
from dragoman.client.endpoint import Endpoint
from dragoman.client.invocation import invocation
from dragoman.client.keyreading import key_reader
from dragoman.client.lane import Intake
from dragoman.client.metrics import ChannelMetrics, Metrics
from dragoman.client.middleware.dead_letter import dead_letter, keep
from dragoman.client.middleware.expiry import expiry
from dragoman.client.middleware.invalid import invalid, rejection
from dragoman.client.middleware.retry import retry
from dragoman.client.options import ClientOptions
from dragoman.client.outcome import Handler, Middleware, Outcome
from dragoman.client.pausing import Pauses
from dragoman.client.reply import Answers
from dragoman.core.broker import Broker, Subscription
from dragoman.schema.records import is_record

Given = Mapping[str, Any]
"""Injected arguments of an endpoint, by parameter."""


@dataclass(frozen=True, slots=True)
class Assembly:
    broker: Broker
    contracts: Contracts
    options: ClientOptions
    middleware: tuple[Middleware, ...]
    metrics: Metrics
    pauses: Pauses
    executor: Executor

    async def consumers(self, endpoints: Sequence[tuple[Endpoint, Given]]) -> list[Consumer]:
        """Endpoints of one group that start alike share one member of the group."""
        members: dict[tuple[str, object], dict[str, list[tuple[Endpoint, Given]]]] = {}
        for endpoint, given in endpoints:
            channels = members.setdefault((endpoint.group, endpoint.options.start), defaultdict(list))
            channels[endpoint.channel].append((endpoint, given))
        return [await self._consumer(channels) for channels in members.values()]

    async def _consumer(self, channels: Mapping[str, list[tuple[Endpoint, Given]]]) -> Consumer:
        first = next(iter(channels.values()))[0][0]
        intakes = {channel: await self._intake(some) for channel, some in channels.items()}
        subscription = Subscription(
            tuple(channels), first.group, start=first.options.start, member=self.options.name
        )
        pace = Pace(self.options.window, self.options.drain_timeout)
        return Consumer(self.broker, subscription, intakes, pace, self.pauses)

    async def _intake(self, endpoints: Sequence[tuple[Endpoint, Given]]) -> Intake:
        first = endpoints[0][0]
        candidates = [each for one, given in endpoints for each in await self._candidates(one, given)]
        dispatcher = Dispatcher(first.channel, first.group, candidates, self.contracts, self._failures(first))
        return Intake(dispatcher.handle, first.options.concurrency, self.metrics.of(first.channel))

    async def _candidates(self, endpoint: Endpoint, given: Given) -> list[Candidate]:
        handle = await self._handler(endpoint, given)
        read_key = None if endpoint.key is None else key_reader(endpoint.key, self.contracts)
        return [
            Candidate(
                endpoint,
                handle,
                await self.contracts.bind(endpoint.channel, cls) if is_record(cls) else None,
                read_key,
            )
            for cls in endpoint.payload.types
        ]

    async def _handler(self, endpoint: Endpoint, given: Given) -> Handler:
        counters = self.metrics.of(endpoint.channel)
        answers = await self._answers(endpoint, counters)
        own = tuple(guarded(each) for each in (*self.middleware, *endpoint.middleware))
        return compose((*self._standard(endpoint), *own), invocation(endpoint, given, self.executor, answers))

    async def _answers(self, endpoint: Endpoint, counters: ChannelMetrics) -> Answers | None:
        """How the endpoint answers; ``None`` if it never does."""
        if endpoint.reply is None and not endpoint.raises:
            return None
        bind = self.contracts.bind
        bound = None
        if endpoint.reply is not None:
            bound = await bind(endpoint.reply_contract_channel, endpoint.reply)
        raised = {cls: await bind(endpoint.error_contract_channel(cls), cls) for cls in endpoint.raises}
        return Answers(self.broker, endpoint.reply_to, bound, raised, endpoint.correlation, counters)

    def _standard(self, endpoint: Endpoint) -> tuple[Middleware, ...]:
        """From the outside in. Users' own come after them, and so are part of what is tried again."""
        options, counters, bury = endpoint.options, self.metrics.of(endpoint.channel), self._bury
        dead = options.dead_letter_channel(endpoint.channel)
        unreadable = options.invalid_channel(endpoint.channel)
        return (
            expiry(dead or unreadable, bury, counters),
            invalid(unreadable, bury, counters),
            keep(options.retry, counters)
            if dead is None
            else dead_letter(dead, options.deliveries, bury, counters),
            retry(options.retry, self.pauses, counters),
        )

    def _failures(self, endpoint: Endpoint) -> Failures:
        """For messages that reach no endpoint: as the channel's first endpoint in the group wants it."""
        options, counters, bury = endpoint.options, self.metrics.of(endpoint.channel), self._bury
        dead = options.dead_letter_channel(endpoint.channel)
        strategy = keep(options.retry, counters) if dead is None else dead_letter(dead, None, bury, counters)

        async def unroutable(delivery: Delivery, error: Exception) -> Outcome:
            async def fail(delivery: Delivery) -> Outcome:
                raise error

            return await strategy(delivery, fail)

        return Failures(rejection(options.invalid_channel(endpoint.channel), bury, counters), unroutable)

    @property
    def _bury(self) -> Bury:
        return burial(self.broker)
