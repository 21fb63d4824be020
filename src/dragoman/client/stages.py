"""What is checked of a message before its handler is called. Each rule exists here once.

A stage says whether a message goes on, and what ends the message instead of the handler if it does not.
``dragoman.client.path`` compiles the stages of an endpoint into one function, for messages one by one, for
batches and for messages that are nothing but values.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from dragoman.client.burial import Bury
from dragoman.client.condition import Get
from dragoman.client.delivery import Delivery
from dragoman.client.headers import EXPIRES_AT, SEQUENCE_ID
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.middleware.aside import put_aside
from dragoman.client.outcome import DONE, Middleware, Outcome
from dragoman.client.selection import Selection
from dragoman.core.errors import ClientError, MessageError, MessageExpired
from dragoman.core.message import Headers, Message, header

End: TypeAlias = Callable[[Delivery], Awaitable[Outcome]]
"""What ends a message instead of its handler."""


@dataclass(frozen=True, slots=True)
class Stage:
    """``passes`` is called at most once per message. If it is not true, ``end`` is called and nothing else.

    A stage that neither has a header nor comes after reading is given ``None`` besides the message.
    """

    passes: Callable[[Message, Any], Any]
    end: End
    after_reading: bool = False
    """It comes after the payload was read, and is given the value."""
    header: str | None = None
    """It is about the messages that have this header, and is given the header's text."""


def sequence(part: Callable[[Message], Awaitable[Outcome]]) -> Stage:
    """Parts of a sequence go to ``part``, which puts the whole together. See ``is_part``."""
    return Stage(lambda message, text: False, lambda delivery: part(delivery.message), header=SEQUENCE_ID)


def is_part(message: Message) -> bool:
    return header(message.headers, SEQUENCE_ID) is not None


def condition(meets: Get, counters: ChannelMetrics, *, after_reading: bool) -> Stage:
    """The endpoint's own condition. Messages that do not meet it are acknowledged, and only counted."""

    async def pass_over(delivery: Delivery) -> Outcome:
        counters.unselected += 1
        return DONE

    return Stage(meets, pass_over, after_reading)


def expiry(channel: str | None, bury: Bury, counters: ChannelMetrics, now: Callable[[], float]) -> Stage:
    """Messages whose time has passed are put aside. Without a channel they are never acknowledged."""

    def passes(message: Message, text: Any) -> bool:
        moment = _moment(text)
        return moment is None or moment > now() * 1000

    async def expire(delivery: Delivery) -> Outcome:
        error = MessageExpired(
            "Its time had passed before it was handled.", expires_at=expires_at(delivery.message.headers)
        )
        outcome = await put_aside(delivery, error, channel, bury, "A message has expired", level=logging.INFO)
        counters.expired += outcome.acknowledge
        return outcome

    return Stage(passes, expire, header=EXPIRES_AT)


def expires_at(headers: Headers) -> int | None:
    """Milliseconds since the epoch."""
    text = header(headers, EXPIRES_AT)
    return None if text is None else _moment(text)


def _moment(text: bytes) -> int | None:
    """A header that is not a number does not count."""
    return int(text) if len(text) <= 19 and text.isdigit() else None


def selection(selection: Selection, channel: str | None, bury: Bury, counters: ChannelMetrics) -> Stage:
    """The conditions of a model.

    Unwanted messages are only counted if no other endpoint could have taken them. In a group that is shared
    with endpoints that select differently, they become dead letters: the broker gave the message to this
    member alone, so acknowledging it would lose it for the member that wants it. Without a dead-letter
    channel they stay unacknowledged.
    """
    if not selection.others:
        return condition(selection.wants, counters, after_reading=True)

    async def turn_away(delivery: Delivery) -> Outcome:
        error = selection.unwanted(delivery)
        outcome = await put_aside(
            delivery,
            error,
            channel,
            bury,
            "A message is for others of its group",
            dead_letter_channel=channel,
        )
        counters.dead += outcome.acknowledge
        return outcome

    return Stage(selection.wants, turn_away, after_reading=True)


def deliveries(deliveries_max: int, strategy: Middleware) -> Stage:
    """Messages that the broker has delivered too often fail at once, without their handler being called."""

    def passes(message: Message, value: Any) -> bool:
        return message.attempt <= deliveries_max

    def fail(delivery: Delivery) -> Awaitable[Outcome]:
        return strategy(delivery, raise_it)

    async def raise_it(delivery: Delivery) -> Outcome:
        raise ClientError(
            f"The broker delivered the message {delivery.message.attempt} times, and it was never finished.",
            code="client.too-many-deliveries",
            next="Does handling it end the process? Replay it once that is cured.",
        )

    return Stage(passes, fail, after_reading=True)


class Rejection:
    """What becomes of a message that cannot be read: it goes to the channel for invalid messages.

    Without a channel it is never acknowledged.
    """

    def __init__(self, channel: str | None, bury: Bury, counters: ChannelMetrics) -> None:
        self._channel = channel
        self._bury = bury
        self._counters = counters

    async def __call__(self, delivery: Delivery, error: MessageError) -> Outcome:
        outcome = await put_aside(
            delivery,
            error,
            self._channel,
            self._bury,
            "A message cannot be read",
            invalid_channel=self._channel,
        )
        self._counters.invalid += outcome.acknowledge
        return outcome
