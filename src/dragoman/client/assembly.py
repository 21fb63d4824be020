"""From checked endpoints to consumers: one per group, with a dispatcher per channel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

from dragoman.client.batch import Batch, Runner, batches
from dragoman.client.chain import Chain
from dragoman.client.composition import compose, contained, guarded
from dragoman.client.consumer import Consumer, Pace
from dragoman.client.contracts import Contracts
from dragoman.client.delivery import Delivery
from dragoman.client.dispatch import Candidate, Dispatcher, Failures
from dragoman.client.endpoint import Endpoint, subscription_of
from dragoman.client.invocation import call_of, invocation
from dragoman.client.keyreading import key_reader
from dragoman.client.lane import Batching, Intake
from dragoman.client.later import retry_channels, retry_group, when_due
from dragoman.client.metrics import ChannelMetrics, Metrics
from dragoman.client.options import ClientOptions
from dragoman.client.outcome import Handler, Middleware, Outcome
from dragoman.client.path import Plan
from dragoman.client.pausing import Pauses
from dragoman.client.reply import Answers
from dragoman.client.sequence.assembling import Assembler, no_parts
from dragoman.client.tracing import Tracing
from dragoman.client.transactional.brokered import in_transaction
from dragoman.client.transactional.identity import needs_ids
from dragoman.client.transactional.receiving import Once
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
    tracing: Tracing | None = None
    halted: Callable[[str, Exception], None] | None = None
    """Told when an endpoint has ended the work of its group."""

    async def consumers(self, endpoints: Sequence[tuple[Endpoint, Given]]) -> list[Consumer]:
        """Endpoints of one group that subscribe alike share one member of the group."""
        members: dict[tuple[Any, ...], dict[str, list[tuple[Endpoint, Given]]]] = {}
        for endpoint, given in endpoints:
            options = endpoint.options
            alike = (endpoint.group, str(options.start), options.sharing, options.durable)
            channels = members.setdefault(alike, defaultdict(list))
            channels[endpoint.channel].append((endpoint, given))
        return [each for channels in members.values() for each in await self._members(channels)]

    async def _members(self, channels: Mapping[str, list[tuple[Endpoint, Given]]]) -> list[Consumer]:
        first = next(iter(channels.values()))[0][0]
        intakes = {channel: await self._intake(some) for channel, some in channels.items()}
        main = subscription_of(first, tuple(channels), self.options.name)
        return [self._consumer(main, intakes), *self._retry_consumers(channels, intakes)]

    def _consumer(self, subscription: Subscription, intakes: Mapping[str, Intake]) -> Consumer:
        options = self.options
        pace = Pace(options.window, options.drain_timeout, options.slow_after)
        return Consumer(self.broker, subscription, intakes, pace, self.pauses, self.halted)

    def _retry_consumers(
        self, channels: Mapping[str, list[tuple[Endpoint, Given]]], intakes: Mapping[str, Intake]
    ) -> list[Consumer]:
        """A member for each delay: what waits long does not hold up what waits for a moment only."""
        found = []
        for channel, some in channels.items():
            endpoint, intake = some[0][0], intakes[channel]
            for name in retry_channels(endpoint, self.broker.capabilities):
                handle = when_due(intake.handle, channel, self.pauses)
                subscription = Subscription((name,), retry_group(endpoint.group), member=self.options.name)
                batch = None if intake.batch is None else replace(intake.batch, handle=batches(handle))
                waiting = {name: replace(intake, handle=handle, batch=batch, direct=None)}
                found.append(self._consumer(subscription, waiting))
        return found

    async def _intake(self, endpoints: Sequence[tuple[Endpoint, Given]]) -> Intake:
        first = endpoints[0][0]
        options = first.options
        candidates = [each for one, given in endpoints for each in await self._candidates(one, given)]
        failures = self._failures(first)
        positions = self.broker.capabilities.replay
        counters, latency = self.metrics.of(first.channel), self.metrics.latency_of(first.channel)
        dispatcher = Dispatcher(
            first.channel, first.group, candidates, self.contracts, failures, self.pauses, positions, counters
        )
        batch = direct = None
        if first.batch or any(one.transactional for one, _ in endpoints):
            handle = dispatcher.taking(no_parts(dispatcher.refuse))
        else:
            assembler = Assembler(dispatcher.take, dispatcher.refuse, options.sequence, self.pauses, counters)
            handle, direct = dispatcher.taking(assembler.take), dispatcher.direct()
        if first.batch:
            batch = Batching(batches(handle), options.batch_size, options.batch_wait)
        lanes = 1 if first.batch else options.concurrency
        names = " and ".join(dict.fromkeys(one.name for one, _ in endpoints))
        return Intake(handle, lanes, counters, batch, latency, direct, names)

    async def _candidates(self, endpoint: Endpoint, given: Given) -> list[Candidate]:
        plan = await self._plan(endpoint, given)
        read_key = None if endpoint.key is None else key_reader(endpoint.key, self.contracts)
        return [
            Candidate(
                endpoint,
                plan,
                await self.contracts.bind(endpoint.channel, cls) if is_record(cls) else None,
                read_key,
            )
            for cls in endpoint.payload.types
        ]

    async def _plan(self, endpoint: Endpoint, given: Given) -> Plan:
        """All that surrounds the endpoint, and how it is called."""
        counters = self.metrics.of(endpoint.channel)
        chain = Chain(endpoint, self.broker, counters, self.pauses, self.tracing)
        answers = await self._answers(endpoint, counters, chain.answering)
        own = tuple(guarded(each) for each in (*self.middleware, *endpoint.middleware))
        if endpoint.transaction is None:
            invoke = invocation(endpoint, given, self.executor, answers)
        else:
            invoke = self._once(endpoint, given, answers, counters)
        if endpoint.transactional:
            invoke = in_transaction(invoke, self.broker)
        inner = compose(own, invoke)
        if not endpoint.batch:
            is_bare = not own and answers is None and endpoint.transaction is None
            return chain.plan(inner, by_value=is_bare and not endpoint.transactional)
        whole = contained(inner)
        together = compose((*chain.observing(), *chain.repeating()), whole)
        alone = compose(
            (*chain.observing(), *chain.failing(), *chain.repeating()),
            lambda delivery: whole(Batch([delivery])),
        )
        return chain.joining(Runner(together, alone).join)

    def _once(
        self, endpoint: Endpoint, given: Given, answers: Answers | None, counters: ChannelMetrics
    ) -> Handler:
        """An endpoint that is given a transaction."""
        assert endpoint.transaction is not None
        call = call_of(endpoint, endpoint.function, given)
        database, positions = given[endpoint.transaction.name], self.broker.capabilities.replay
        once = Once(
            call, database, endpoint.identity, answers, counters, self.executor, positions, endpoint.silent
        )
        return once.handler()

    async def _answers(self, endpoint: Endpoint, counters: ChannelMetrics, broker: Broker) -> Answers | None:
        """How the endpoint answers; ``None`` if it never does."""
        if endpoint.reply is None and not endpoint.raises:
            return None
        bind = self.contracts.bind
        bound = None
        if endpoint.reply is not None:
            bound = await bind(endpoint.reply_contract_channel, endpoint.reply, writes=True)
        raised = {cls: await bind(endpoint.error_contract_channel(cls), cls) for cls in endpoint.raises}
        return Answers(
            broker,
            endpoint.reply_to,
            bound,
            raised,
            endpoint.correlation,
            counters,
            endpoint.reply_expires_in,
            endpoint.reply_named or needs_ids(broker),
        )

    def _failures(self, endpoint: Endpoint) -> Failures:
        """For messages that reach no endpoint: as the channel's first endpoint in the group wants it."""
        chain = Chain(endpoint, self.broker, self.metrics.of(endpoint.channel), self.pauses, self.tracing)
        strategy = chain.strategy()

        async def unroutable(delivery: Delivery, error: Exception) -> Outcome:
            async def fail(delivery: Delivery) -> Outcome:
                raise error

            return await strategy(delivery, fail)

        return Failures(chain.reject, unroutable)
