"""The selective consumer: messages that do not meet the endpoint's condition are done with, unhandled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from dragoman.client.delivery import Delivery
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import DONE, Handler, Middleware, Outcome
from dragoman.core.message import Message


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


async def _passed_over(counters: ChannelMetrics) -> Outcome:
    counters.unselected += 1
    return DONE
