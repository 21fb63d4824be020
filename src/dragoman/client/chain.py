"""What surrounds an endpoint: selection, expiry, reading, what becomes of failures, repetition."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from dragoman.client import stages
from dragoman.client.burial import Bury, burial
from dragoman.client.composition import after_failure, contained
from dragoman.client.condition import read_condition
from dragoman.client.delivery import Delivery
from dragoman.client.endpoint import Endpoint
from dragoman.client.invocation import value_function
from dragoman.client.later import postponing, retries_of
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.middleware.dead_letter import dead_letter, keep
from dragoman.client.middleware.failing import custom, skip, stop
from dragoman.client.middleware.later import later
from dragoman.client.middleware.retry import retry
from dragoman.client.outcome import Handler, Middleware, Outcome
from dragoman.client.path import Plan
from dragoman.client.pausing import Pauses
from dragoman.client.stages import Rejection, Stage
from dragoman.client.tracing import Tracing
from dragoman.core.broker import Broker


@dataclass(frozen=True, slots=True)
class Chain:
    """All of it from the outside in. Users' own middleware comes after, so it is part of what is repeated."""

    endpoint: Endpoint
    broker: Broker
    counters: ChannelMetrics
    pauses: Pauses
    tracing: Tracing | None = None

    def plan(self, call: Handler, *, by_value: bool) -> Plan:
        """For messages one by one. ``by_value`` says that ``call`` does nothing but call the function."""
        layers = (*self.failing(), *self.repeating())
        function = value_function(self.endpoint) if by_value else None
        failed = after_failure(layers, contained(call))
        observe = None if self.tracing is None else self.tracing.consume
        return Plan(self.stages(), call, function, self.reject, failed, self.counters, observe)

    def joining(self, join: Handler) -> Plan:
        """For messages that are only read here, and handled with others."""
        return Plan(self.stages(), join, None, self.reject, _raised, self.counters)

    @property
    def reject(self) -> Rejection:
        channel = self.endpoint.options.invalid_channel(self.endpoint.channel)
        return Rejection(channel, self._bury, self.counters)

    def observing(self) -> tuple[Middleware, ...]:
        return () if self.tracing is None else (self.tracing.consume,)

    def stages(self) -> tuple[Stage, ...]:
        """Which messages get as far as being handled."""
        endpoint, counters, bury = self.endpoint, self.counters, self._bury
        options, selection = endpoint.options, endpoint.selection
        dead = options.dead_letter_channel(endpoint.channel)
        put_aside = dead or options.invalid_channel(endpoint.channel)
        condition = None if options.consumed_if is None else read_condition(options.consumed_if)
        found = []
        if condition is not None and condition.early is not None:
            found.append(stages.condition(condition.early, counters, after_reading=False))
        found.append(stages.expiry(put_aside, bury, counters, self.pauses.now))
        if condition is not None and condition.late is not None:
            found.append(stages.condition(condition.late, counters, after_reading=True))
        if selection is not None:
            found.append(stages.selection(selection, dead, bury, counters))
        if options.deliveries is not None:
            found.append(stages.deliveries(options.deliveries, self.strategy()))
        return tuple(found)

    def failing(self) -> tuple[Middleware, ...]:
        """What becomes of a message whose handler fails, however often it is called."""
        options = self.endpoint.options
        found = [self.strategy()]
        if options.later is not None:
            retries = partial(retries_of, capabilities=self.broker.capabilities)
            postpone = postponing(self.broker, options.later, self.endpoint.group)
            found.append(later(options.later, options.retry, retries, postpone, self.counters))
        return tuple(found)

    def strategy(self) -> Middleware:
        options = self.endpoint.options
        dead = options.dead_letter_channel(self.endpoint.channel)
        match options.on_failure:
            case "skip":
                return skip(self.counters)
            case "stop":
                return stop()
            case "dead-letter":
                if dead is None:
                    return keep(options.retry, self.counters)
                return dead_letter(dead, self._bury, self.counters)
            case own:
                return custom(own, self.counters)

    def repeating(self) -> tuple[Middleware, ...]:
        again = retry(self.endpoint.options.retry, self.pauses, self.counters, self.pauses.now)
        return (again,) if self.tracing is None else (again, self.tracing.attempt)

    @property
    def _bury(self) -> Bury:
        return burial(self.broker, self.answering)

    @property
    def answering(self) -> Broker:
        """What sends answers to the endpoint's messages."""
        channel = self.endpoint.channel
        return self.broker if self.tracing is None else self.tracing.answering(self.broker, channel)


async def _raised(delivery: Delivery, error: Exception) -> Outcome:
    raise error
