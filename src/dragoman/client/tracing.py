"""Traces with OpenTelemetry: whatever is published carries its trace on, and what is handled belongs to it.

Loaded only when ``ClientOptions(tracing=True)`` asks for it. A trace goes from the producer by the header
``traceparent`` through the handler to its replies, dead letters and retries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from dragoman.client.batch import Batch
from dragoman.client.burial import code_of
from dragoman.client.delivery import Delivery
from dragoman.client.labels import label_of
from dragoman.client.outcome import Handler, Outcome
from dragoman.core.broker import Broker
from dragoman.core.extras import extra_missing
from dragoman.core.loading import scheme_of
from dragoman.core.message import Headers, Message, Position, with_headers

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span

FAILED = "dragoman.tracing.failed"


class Tracing:
    """Spans by the tracer that the program has set up; without one they cost little and go nowhere."""

    def __init__(self, broker_url: str) -> None:
        try:
            from opentelemetry import propagate, trace
        except ModuleNotFoundError as error:
            raise extra_missing("Tracing", "opentelemetry-api", "observability") from error
        self._trace = trace
        self._propagate = propagate
        self._tracer = trace.get_tracer("dragoman")
        self._system = scheme_of(broker_url)

    def broker(self, broker: Broker) -> Broker:
        """The same broker, with a span for everything that is published."""
        return cast(Broker, _TracedBroker(broker, self))

    def answering(self, broker: Broker, channel: str) -> Broker:
        """A broker with spans, for the answers to the messages of a channel.

        They go to addresses that the requesters name, so their spans are named for that channel instead.
        """
        traced = cast(_TracedBroker, broker)
        return cast(Broker, _TracedBroker(traced.broker, self, f"reply {label_of(channel)}"))

    async def consume(self, delivery: Delivery, next: Handler) -> Outcome:
        """The outermost middleware: one span from the turn of a message until it is done with."""
        message = delivery.message
        with self._tracer.start_as_current_span(
            f"process {label_of(message.channel)}",
            context=self._origin(message),
            links=self._links(delivery),
            kind=self._trace.SpanKind.CONSUMER,
            attributes=self._about(delivery),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                outcome = await next(delivery)
            except Exception as error:
                self._failed(span, code_of(error))
                raise
            code = delivery.notes.get(FAILED)
            if code is not None:
                self._failed(span, code)
            span.set_attribute("dragoman.acknowledged", outcome.acknowledge)
            return outcome

    async def attempt(self, delivery: Delivery, next: Handler) -> Outcome:
        """Inside the repetitions: each failure is an event of the span."""
        try:
            outcome = await next(delivery)
        except Exception as error:
            delivery.notes[FAILED] = code_of(error)
            self._trace.get_current_span().add_event(
                "attempt failed",
                {"dragoman.attempt": delivery.attempt, "error.type": type(error).__qualname__},
            )
            raise
        delivery.notes.pop(FAILED, None)
        return outcome

    def _origin(self, message: Message) -> Context:
        return self._propagate.extract({name: value.decode("latin-1") for name, value in message.headers})

    def _links(self, delivery: Delivery) -> list[Link]:
        """A batch belongs to the trace of its first message, and knows those of the others."""
        others = delivery.members[1:] if isinstance(delivery, Batch) else ()
        origins = (self._trace.get_current_span(self._origin(each.message)) for each in others)
        return [self._trace.Link(origin.get_span_context()) for origin in origins]

    def _failed(self, span: Span, code: str) -> None:
        """By its code. What an error says may quote the payload."""
        span.set_attribute("error.type", code)
        span.set_status(self._trace.StatusCode.ERROR, code)

    def _about(self, delivery: Delivery) -> dict[str, Any]:
        message, version = delivery.message, delivery.route.version
        found: dict[str, Any] = {
            "messaging.system": self._system,
            "messaging.operation.type": "process",
            "messaging.destination.name": message.channel,
            "messaging.consumer.group.name": delivery.route.group,
            "messaging.destination.partition.id": str(message.partition),
            "dragoman.endpoint": delivery.endpoint,
        }
        if message.offset is not None:
            found["dragoman.offset"] = message.offset
        if version is not None:
            found |= {"dragoman.contract": version.contract, "dragoman.contract.version": version.version}
        return found

    async def publish(
        self, broker: Broker, messages: Sequence[Message], delay: float, name: str | None = None
    ) -> Any:
        """``name`` is the span's, if it is not named for the channel."""
        if not messages:
            return await broker.publish(messages, delay)
        channel = messages[0].channel
        with self._tracer.start_as_current_span(
            name or f"publish {label_of(channel)}",
            kind=self._trace.SpanKind.PRODUCER,
            attributes={
                "messaging.system": self._system,
                "messaging.operation.type": "send",
                "messaging.destination.name": channel,
                "messaging.batch.message_count": len(messages),
            },
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                return await broker.publish(self.marked(broker, messages), delay)
            except Exception as error:
                self._failed(span, code_of(error))
                raise

    def marked(self, broker: Broker, messages: Sequence[Message]) -> Sequence[Message]:
        """With the headers of the current trace, where the broker carries headers."""
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier)
        if not carrier or not broker.capabilities.headers:
            return messages
        added: Headers = tuple((name, value.encode()) for name, value in carrier.items())
        return [each._replace(headers=with_headers(each.headers, *added)) for each in messages]


class _TracedBroker:
    """All else goes straight to the broker."""

    def __init__(self, broker: Broker, tracing: Tracing, name: str | None = None) -> None:
        self.broker = broker
        self._tracing = tracing
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self.broker, name)

    async def publish(self, messages: Sequence[Message], delay: float = 0.0) -> Sequence[Position | None]:
        positions: Sequence[Position | None] = await self._tracing.publish(
            self.broker, messages, delay, self._name
        )
        return positions

    async def transact(self, messages: Sequence[Message], *others: Any, **more: Any) -> Any:
        marked = self._tracing.marked(self.broker, messages)
        return await cast(Any, self.broker).transact(marked, *others, **more)
