"""What surrounds an endpoint: selection, expiry, reading, what becomes of failures, repetition."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from dragoman.client.burial import Bury, burial
from dragoman.client.composition import after_failure, contained, when_failed
from dragoman.client.condition import Condition, read_condition
from dragoman.client.endpoint import Endpoint
from dragoman.client.invocation import value_function
from dragoman.client.later import postponing, retries_of
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.middleware.dead_letter import dead_letter, keep
from dragoman.client.middleware.deliveries import deliveries
from dragoman.client.middleware.expiry import expiry
from dragoman.client.middleware.failing import custom, skip, stop
from dragoman.client.middleware.invalid import invalid
from dragoman.client.middleware.later import later
from dragoman.client.middleware.retry import retry
from dragoman.client.middleware.selection import early_selection, late_selection, model_selection
from dragoman.client.outcome import Handler, Middleware
from dragoman.client.pausing import Pauses
from dragoman.client.straight import Straight
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

    def around(self) -> tuple[Middleware, ...]:
        layers = (*self.failing(), *self.repeating())
        if self._idle:
            layers = (when_failed(layers, self.counters),)
        return (*self.observing(), *self.before(), *layers)

    @property
    def _idle(self) -> bool:
        """Whether all layers look at failures only, so that messages which do not fail need not pass them."""
        return self.tracing is None and self.endpoint.options.deliveries is None

    def straight(self, inner: Handler, *, alone: bool) -> Straight | None:
        """The short way to the endpoint, if it can have one; ``alone`` if nothing is around it inside."""
        if not self._idle:
            return None
        failed = after_failure((*self.failing(), *self.repeating()), contained(inner))
        function = value_function(self.endpoint) if alone else None
        condition = self._condition or Condition(None, None)
        selection = self.endpoint.selection
        return Straight(inner, function, failed, condition, selection, self.counters, self.pauses.now)

    def observing(self) -> tuple[Middleware, ...]:
        return () if self.tracing is None else (self.tracing.consume,)

    def before(self) -> tuple[Middleware, ...]:
        """Which messages get as far as being handled, and in what form."""
        options, channel, bury = self.endpoint.options, self.endpoint.channel, self._bury
        dead, unreadable = options.dead_letter_channel(channel), options.invalid_channel(channel)
        condition = self._condition
        found = [
            expiry(dead or unreadable, bury, self.counters, self.pauses.now),
            invalid(unreadable, bury, self.counters),
        ]
        if condition is not None and condition.early is not None:
            found.insert(0, early_selection(condition.early, self.counters))
        if condition is not None and condition.late is not None:
            found.append(late_selection(condition.late, self.counters))
        if self.endpoint.selection is not None:
            found.append(model_selection(self.endpoint.selection, dead, bury, self.counters))
        return tuple(found)

    def failing(self) -> tuple[Middleware, ...]:
        """What becomes of a message whose handler fails, however often it is called."""
        options = self.endpoint.options
        found = [self.strategy()]
        if options.deliveries is not None:
            found.append(deliveries(options.deliveries))
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

    @property
    def _condition(self) -> Condition | None:
        text = self.endpoint.options.consumed_if
        return None if text is None else read_condition(text)
