"""The selective consumer: messages that do not meet the endpoint's condition never reach its handler.

Unwanted messages are acknowledged in silence where no other endpoint could have taken them. In a group that
is shared with endpoints that select differently, they are dead letters: the broker gave the message to this
member alone, so acknowledging it would lose it for the member that wants it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.client.burial import Bury
from dragoman.client.delivery import Delivery
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.middleware.aside import put_aside
from dragoman.client.outcome import DONE, Handler, Middleware, Outcome
from dragoman.core.errors import MessageError
from dragoman.core.message import Message

Wants = Callable[[Message, Any], bool]
"""Whether a message is wanted, from it and its decoded payload."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a model says about the messages that an endpoint is for."""

    wants: Wants
    others: Mapping[str, Wants] = field(default_factory=dict)
    """Endpoints by name that share the group and select differently."""

    def unwanted(self, delivery: Delivery) -> MessageError:
        """Why a message that may be for others is a dead letter."""
        takers = [name for name, wants in self.others.items() if wants(delivery.message, delivery.value)]
        if takers:
            said = f"{' and '.join(takers)} may take it, and cannot get it from here."
        else:
            said = f"None of the others ({', '.join(self.others)}) wants it either."
        return MessageError(
            f"{delivery.endpoint} does not want it, and others of its group select differently. {said}",
            code="message.unselected",
            next="In the model, give all of them one condition, give each a channel of its own, "
            "or make it PUBLISH_SUBSCRIBE; then retry the dead letters.",
        )


def early_selection(meets: Callable[[Message, Any], Any], counters: ChannelMetrics) -> Middleware:
    """By headers and key: what is not selected is never decoded."""

    def handle(delivery: Delivery, next: Handler) -> Awaitable[Outcome]:
        return next(delivery) if meets(delivery.message, None) else _passed_over(counters)

    return handle


def late_selection(meets: Callable[[Message, Any], Any], counters: ChannelMetrics) -> Middleware:
    """By the payload as well."""

    def handle(delivery: Delivery, next: Handler) -> Awaitable[Outcome]:
        return next(delivery) if meets(delivery.message, delivery.value) else _passed_over(counters)

    return handle


def model_selection(
    selection: Selection, channel: str | None, bury: Bury, counters: ChannelMetrics
) -> Middleware:
    """By the conditions of a model. Without a dead-letter channel, messages of others stay unacknowledged."""

    def handle(delivery: Delivery, next: Handler) -> Awaitable[Outcome]:
        if selection.wants(delivery.message, delivery.value):
            return next(delivery)
        return turn_away(delivery) if selection.others else _passed_over(counters)

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

    return handle


async def _passed_over(counters: ChannelMetrics) -> Outcome:
    counters.unselected += 1
    return DONE
