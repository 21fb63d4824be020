"""All options of the client, each declared once. Passed whole; ``dataclasses.replace`` derives one."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Literal

from dragoman.core.errors import ConfigurationError
from dragoman.schema.naming import Naming


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
    never: tuple[type[Exception], ...] = ()
    """Errors that no repetition can cure."""

    def __post_init__(self) -> None:
        _at_least("attempts", self.attempts, 1)
        _at_least("delay", self.delay, 0)
        _at_least("factor", self.factor, 1)
        _at_least("longest", self.longest, 0)
        if not 0 <= self.jitter < 1:
            raise ConfigurationError(f"The option jitter is {self.jitter}.", next="Use 0 to 1, 1 excluded.")

    def pause(self, attempt: int) -> float:
        """The seconds to rest after this many calls have failed."""
        # The exponent is bounded, since a float to the power of a large number overflows.
        delay = min(self.longest, self.delay * self.factor ** min(attempt - 1, 64))
        return delay * (1 + self.jitter * random.uniform(-1, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """How one endpoint is fed, and what becomes of messages that it cannot handle.

    Given to an endpoint, its controller or the client; the nearest counts, as a whole.
    """

    retry: RetryOptions = field(default_factory=RetryOptions)
    dead_letter: str | None = "{channel}.dead"
    """Where messages go whose handler fails for good. ``None``: they are delivered again until it works."""
    invalid: str | None = "{channel}.invalid"
    """Where messages go that cannot be read. ``None``: to the dead letters."""
    concurrency: int = 1
    """Handlers at once per partition. Above 1, order holds per key only."""
    deliveries: int | None = None
    """A message that the broker has delivered more often than this, since it kills its process, say, goes to
    the dead letters untried. Needs a broker that counts."""
    start: Literal["earliest", "latest"] | int = "earliest"
    """Where a group begins that has no position yet; a number is milliseconds since the epoch."""

    def __post_init__(self) -> None:
        _at_least("concurrency", self.concurrency, 1)
        if self.deliveries is not None:
            _at_least("deliveries", self.deliveries, 1)

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
    group: str = "default"
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
    """Messages in flight per group: received and not acknowledged yet."""
    largest_message: int = 64 * 1024 * 1024
    """Bytes of a frame. A larger one is not decoded, and goes to the invalid messages."""
    threads: int = 16
    """Plain ``def`` endpoints that may run at once."""
    drain_timeout: float = 30.0
    """Seconds that handlers may take to finish when the client closes."""
    request_timeout: float = 30.0
    endpoint: EndpointOptions = field(default_factory=EndpointOptions)

    def __post_init__(self) -> None:
        for name in ("partitions", "window", "threads", "largest_message"):
            _at_least(name, getattr(self, name), 1)
        _at_least("drain_timeout", self.drain_timeout, 0)


def _at_least(name: str, value: float, least: float) -> None:
    if value < least:
        raise ConfigurationError(f"The option {name} is {value}.", next=f"Use {least} or more.")
