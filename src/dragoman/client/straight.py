"""The short way of a message to its handler, for those that need nothing but to be read and handled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from dragoman.client.cancellation import as_failure
from dragoman.client.delivery import Delivery, Route
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.outcome import DONE, Outcome
from dragoman.core.errors import MessageError
from dragoman.core.message import Message

Take: TypeAlias = Callable[[Message], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True)
class Straight:
    """An endpoint that is a coroutine function of the value alone, with no middleware of its own around it.

    For a message without headers, which cannot expire, be a part of something or want a reply, all that
    surrounds such an endpoint would do nothing unless something fails. Then it goes on as if it had come
    the long way.
    """

    function: Callable[[Any], Awaitable[Any]]
    failed: Callable[[Delivery, Exception], Awaitable[Outcome]]
    """What becomes of a message whose handler raised this, without calling it for the first time again."""
    counters: ChannelMetrics

    def way(self, route: Route) -> Take:
        function, decode, counters = self.function, route.decode, self.counters

        async def take(message: Message) -> Outcome:
            try:
                value = decode(message.payload)
            except MessageError:
                return await route.handle(Delivery(message, route))
            try:
                await function(value)
            except asyncio.CancelledError as error:
                failure = as_failure(error)
            except Exception as error:
                failure = error
            else:
                counters.handled += 1
                return DONE
            delivery = Delivery(message, route)
            delivery.value = value
            return await self.failed(delivery, failure)

        return take
