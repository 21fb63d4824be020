"""The short way of a message to its endpoint: what usually happens, without what only might."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dragoman.client.cancellation import failure_of, unreadable
from dragoman.client.condition import Condition
from dragoman.client.delivery import Delivery, Route
from dragoman.client.headers import EXPIRES_AT, SEQUENCE_ID
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.middleware.expiry import moment_of
from dragoman.client.middleware.selection import Selection
from dragoman.client.outcome import DONE, Handler, Outcome
from dragoman.client.reply import check_undeclared
from dragoman.core.message import Message

Take: TypeAlias = Callable[[Message], Awaitable[Outcome]]

_NOT_HERE: Final = object()
"""The message is one for the long way."""
_UNSELECTED: Final = object()


@dataclass(frozen=True, slots=True)
class Straight:
    """Selection, reading and the handler in one, for messages that can be read and whose time has not passed.

    All others take the long way, and whatever fails goes on as if it had come by it.
    """

    inner: Handler
    """The endpoint and the user's own middleware."""
    function: Callable[[Any], Awaitable[Any]] | None
    """The same, if that is a coroutine function of the value alone: then nobody needs a delivery."""
    failed: Callable[[Delivery, Exception], Awaitable[Outcome]]
    """What becomes of a message whose handler raised this, without calling it for the first time again."""
    condition: Condition
    selection: Selection | None
    counters: ChannelMetrics
    now: Callable[[], float]

    @property
    def direct(self) -> Callable[[Any], Awaitable[Any]] | None:
        """The function, if nothing has to be known of a message without headers but its value."""
        selective = self.condition.early or self.condition.late or self.selection
        return None if selective else self.function

    def after_failure(self, route: Route) -> Callable[[Message, Exception], Awaitable[Outcome]]:
        """What becomes of a message for which the function has raised this."""

        def handle(message: Message, error: Exception) -> Awaitable[Outcome]:
            delivery = Delivery(message, route)
            delivery.decode()
            return self.failed(delivery, error)

        return handle

    def way(self, route: Route, otherwise: Take) -> Take:
        if self.function is None:
            return self._with_delivery(route, otherwise)
        return self._with_value(self.function, route, otherwise)

    def _with_value(self, function: Callable[[Any], Awaitable[Any]], route: Route, otherwise: Take) -> Take:
        read, counters, failed = self._read(route), self.counters, self.failed

        async def take(message: Message) -> Outcome:
            value = read(message)
            if value is _NOT_HERE:
                return await otherwise(message)
            if value is _UNSELECTED:
                return DONE
            try:
                result = await function(value)
                if result is not None:
                    check_undeclared(message, result)
            except BaseException as error:
                failure = await failure_of(error)
            else:
                counters.handled += 1
                return DONE
            return await failed(_delivery(message, route, value), failure)

        return take

    def _with_delivery(self, route: Route, otherwise: Take) -> Take:
        read, counters, failed, inner = self._read(route), self.counters, self.failed, self.inner

        async def take(message: Message) -> Outcome:
            value = read(message)
            if value is _NOT_HERE:
                return await otherwise(message)
            if value is _UNSELECTED:
                return DONE
            delivery = _delivery(message, route, value)
            try:
                outcome = await inner(delivery)
            except BaseException as error:
                failure = await failure_of(error)
            else:
                counters.handled += outcome.acknowledge
                return outcome
            return await failed(delivery, failure)

        return take

    def _read(self, route: Route) -> Callable[[Message], Any]:
        """The value of a message, or why it has none for us."""
        early, late, counters = self.condition.early, self.condition.late, self.counters
        decode, now, selection = route.decode, self.now, self.selection

        def read(message: Message) -> Any:
            for name, text in message.headers:
                if name == EXPIRES_AT:
                    moment = moment_of(text)
                    if moment is not None and moment <= now() * 1000:
                        return _NOT_HERE
                elif name == SEQUENCE_ID:
                    return _NOT_HERE
            if early is not None and not early(message, None):
                counters.unselected += 1
                return _UNSELECTED
            try:
                value = decode(message.payload)
            except BaseException as error:
                unreadable(error)
                return _NOT_HERE
            if late is not None and not late(message, value):
                counters.unselected += 1
                return _UNSELECTED
            if selection is not None and not selection.wants(message, value):
                if selection.others:
                    return _NOT_HERE
                counters.unselected += 1
                return _UNSELECTED
            return value

        return read


def _delivery(message: Message, route: Route, value: Any) -> Delivery:
    delivery = Delivery(message, route)
    delivery.value = value
    return delivery
