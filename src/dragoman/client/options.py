"""All options of the client, each declared once. Passed whole; ``dataclasses.replace`` derives one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Literal, TypeAlias

from dragoman.client.arguments import at_least, require, several
from dragoman.client.delivery import Delivery
from dragoman.client.outcome import Outcome
from dragoman.client.sequence.options import SequenceOptions
from dragoman.core.backoff import Backoff
from dragoman.core.broker import Sharing, Start
from dragoman.core.errors import ConfigurationError
from dragoman.schema.naming import Naming

DEFAULT_GROUP = "default"
FailureHandler: TypeAlias = Callable[[Delivery, Exception], Awaitable[Outcome]]
"""A strategy of one's own: what becomes of a message whose handler failed for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    """How often a failing handler is called again, and how long it rests in between.

    The message stays where it is meanwhile, so the order of its partition holds.
    """

    attempts: int = 5
    """Calls in all; 1 means no second one."""
    delay: float = 0.1
    """Seconds before the second call."""
    factor: float = 2.0
    longest: float = 30.0
    jitter: float = 0.2
    """Each delay is changed at random by up to this share of it, so that many do not retry at once."""
    elapsed: float | None = None
    """Seconds since the first failure after which there is no further call, however many are left."""
    only: tuple[type[Exception], ...] = (Exception,)
    """Errors worth a repetition."""
    never: tuple[type[Exception], ...] = ()
    """Errors that no repetition can cure."""

    def __post_init__(self) -> None:
        at_least("attempts", self.attempts, 1, whole=True)
        at_least("delay", self.delay, 0)
        at_least("factor", self.factor, 1)
        at_least("longest", self.longest, 0)
        if self.elapsed is not None:
            at_least("elapsed", self.elapsed, 0)
        at_least("jitter", self.jitter, 0)
        _errors("only", self.only)
        _errors("never", self.never)
        if not self.jitter < 1:
            raise ConfigurationError(f"The option jitter is {self.jitter}.", next="Use 0 to 1, 1 excluded.")

    def pause(self, attempt: int) -> float:
        """The seconds to rest after this many calls have failed."""
        return Backoff(self.delay, self.longest, self.factor, self.jitter).wait_s(attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterOptions:
    """How a message whose handler failed is tried again later, while those behind it go on: order is lost.

    A broker that delivers later and counts keeps the message aside. On others it waits in channels of its
    own, one for each delay.
    """

    delays: tuple[float, ...] = (5.0, 60.0, 600.0)
    """Seconds before each further delivery; with the last one the message has failed for good."""
    channel: str = "{channel}.retry.{group}"

    def __post_init__(self) -> None:
        if not several("delays", self.delays):
            raise ConfigurationError("The option delays has none.", next="Use one or more, in seconds.")
        for delay in self.delays:
            at_least("delays", delay, 0)
        require("The option channel", self.channel, str)

    def channel_of(self, channel: str, group: str, level: int) -> str:
        """Where messages wait for their next delivery, counted from 0."""
        name = self.channel.replace("{channel}", channel).replace("{group}", group)
        return f"{name}.{level + 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """How one endpoint is fed, and what becomes of messages that it cannot handle.

    Given to an endpoint, its controller or the client; the nearest counts, as a whole.
    """

    retry: RetryOptions = field(default_factory=RetryOptions)
    """In place: the partition waits, so order holds."""
    later: LaterOptions | None = None
    """After that, some time later, without holding up others. ``None``: not at all."""
    on_failure: Literal["dead-letter", "skip", "stop"] | FailureHandler = "dead-letter"
    """What becomes of a message that still fails. ``skip`` logs and counts it, and goes on; ``stop`` keeps
    it and ends the group's work in this client; or a function of one's own."""
    dead_letter: str | None = "{channel}.dead"
    """Where messages go whose handler fails for good. ``None``: they are delivered again until it works."""
    invalid: str | None = "{channel}.invalid"
    """Where messages go that cannot be read. ``None``: to the dead letters."""
    concurrency: int = 1
    """Handlers at once per partition. Above 1, order holds per key only."""
    deliveries: int | None = None
    """A message that the broker has delivered more often than this, since it kills its process, say, goes to
    the dead letters untried. Needs a broker that counts."""
    consumed_if: str | None = None
    """Which messages are handled, such as ``payload.amount > 1000 and header.region == "eu"``. The others are
    done with, unhandled."""
    sequence: SequenceOptions = field(default_factory=SequenceOptions)
    """Limits of messages that come in parts."""
    start: Start = "earliest"
    """Where a group begins that has no position yet; a number is milliseconds since the epoch, a mapping has
    offsets by partition."""
    sharing: Sharing = Sharing.SHARED
    """How this client shares the messages with other members of the group."""
    durable: bool = True
    """Whether the group is remembered while nobody is in it."""
    batch_size: int = 100
    """For endpoints that take a list: so many messages at most."""
    batch_wait: float = 0.05
    """Seconds that a batch may wait to become full."""

    def __post_init__(self) -> None:
        require("The option retry", self.retry, RetryOptions)
        require("The option later", self.later, LaterOptions, NoneType)
        require("The option sequence", self.sequence, SequenceOptions)
        require("The option dead_letter", self.dead_letter, str, NoneType)
        require("The option invalid", self.invalid, str, NoneType)
        require("The option consumed_if", self.consumed_if, str, NoneType)
        require("The option durable", self.durable, bool)
        at_least("concurrency", self.concurrency, 1, whole=True)
        at_least("batch_size", self.batch_size, 1, whole=True)
        at_least("batch_wait", self.batch_wait, 0)
        if not callable(self.on_failure) and self.on_failure not in ("dead-letter", "skip", "stop"):
            raise ConfigurationError(
                f"The option on_failure is {self.on_failure!r}.",
                next="Use 'dead-letter', 'skip', 'stop' or a function.",
            )
        try:
            # A frozen value; the text of a sharing, as from a settings file, is as good as the name.
            object.__setattr__(self, "sharing", Sharing(self.sharing))
        except ValueError as error:
            known = ", ".join(each.value for each in Sharing)
            raise ConfigurationError(
                f"The option sharing is {self.sharing!r}.", next=f"Use one of {known}."
            ) from error
        if not isinstance(self.start, int | Mapping) and self.start not in ("earliest", "latest"):
            raise ConfigurationError(
                f"The option start is {self.start!r}.",
                next="Use 'earliest', 'latest', milliseconds since the epoch, or offsets by partition.",
            )
        if self.deliveries is not None:
            at_least("deliveries", self.deliveries, 1, whole=True)

    def dead_letter_channel(self, channel: str) -> str | None:
        return None if self.dead_letter is None else self.dead_letter.replace("{channel}", channel)

    def invalid_channel(self, channel: str) -> str | None:
        if self.invalid is None:
            return self.dead_letter_channel(channel)
        return self.invalid.replace("{channel}", channel)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    name: str = "client"
    """Seen by the broker as the member's name, and part of the address of replies."""
    group: str = DEFAULT_GROUP
    """The group of controllers and functions that name none."""
    auto_register_schemas: bool = True
    """Register a record's schema where the contract lacks it. Otherwise that fails start-up."""
    auto_register_channels: bool = True
    """Create channels that are missing. Otherwise that fails start-up."""
    partitions: int = 4
    """How many a created channel gets."""
    naming: Naming = Naming.CHANNEL
    format: str = "AVRO"
    """The schema language of the records that are sent."""
    window: int = 512
    """Messages in flight per group: received and not handled yet. Its partitions share it."""
    largest_message: int = 64 * 1024 * 1024
    """Bytes of a frame. A larger one is not decoded, and goes to the invalid messages."""
    threads: int = 16
    """Plain ``def`` endpoints that may run at once."""
    drain_timeout: float = 20.0
    """Seconds that handlers may take to finish when the client closes. Kubernetes kills after 30."""
    slow_after: float = 60.0
    """Seconds that a handler may be at one message until a warning names it."""
    request_timeout: float = 30.0
    tracing: bool = False
    """Trace what is published and handled, with OpenTelemetry."""
    relay: bool = True
    """Publish what stands in the outbox of the client's database. One client does so at a time."""
    endpoint: EndpointOptions = field(default_factory=EndpointOptions)

    def __post_init__(self) -> None:
        for name in ("partitions", "window", "threads", "largest_message"):
            at_least(name, getattr(self, name), 1, whole=True)
        at_least("drain_timeout", self.drain_timeout, 0)
        at_least("slow_after", self.slow_after, 0)
        at_least("request_timeout", self.request_timeout, 0)
        require("The option endpoint", self.endpoint, EndpointOptions)
        require("The option naming", self.naming, Naming)
        for name in ("name", "group", "format"):
            require(f"The option {name}", getattr(self, name), str)


def _errors(name: str, classes: tuple[type[Exception], ...]) -> None:
    if not all(isinstance(each, type) and issubclass(each, Exception) for each in several(name, classes)):
        raise ConfigurationError(f"The option {name} has more than exception classes.", next="Use classes.")
