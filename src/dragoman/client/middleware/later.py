"""A message whose handler fails is tried again some time later; meanwhile the others go on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from dragoman.client.burial import code_of
from dragoman.client.delivery import Delivery
from dragoman.client.later import Postpone
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.middleware.retry import worth_trying
from dragoman.client.options import LaterOptions, RetryOptions
from dragoman.client.outcome import Handler, Middleware, Outcome
from dragoman.core.message import Message

log = logging.getLogger("dragoman.client")


def later(
    options: LaterOptions,
    retry: RetryOptions,
    retries: Callable[[Message], int],
    postpone: Postpone,
    counters: ChannelMetrics,
) -> Middleware:
    """``retries`` tells how often it was tried later. If it cannot be postponed, that error goes on."""

    async def handle(delivery: Delivery, next: Handler) -> Outcome:
        try:
            return await next(delivery)
        except Exception as error:
            level = retries(delivery.message)
            if level >= len(options.delays) or not worth_trying(retry, error):
                raise
            outcome = await postpone(delivery, error, options.delays[level])
            counters.postponed += 1
            log.warning(
                "A message could not be handled and is tried again later.",
                extra=delivery.place() | {"error_code": code_of(error), "delay": options.delays[level]},
            )
            return outcome if outcome.acknowledge else replace(outcome, counted=True)

    return handle
