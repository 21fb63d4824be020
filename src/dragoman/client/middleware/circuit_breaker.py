"""After many failures in a row, leave alone for a while what is evidently broken."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from dragoman.client.arguments import at_least
from dragoman.client.delivery import Delivery
from dragoman.client.outcome import Handler, Outcome, again
from dragoman.core.errors import ConfigurationError

log = logging.getLogger("dragoman.client")


class CircuitBreaker:
    """Opens after ``failures`` in a row; then no handler is called for ``rest`` seconds.

    Messages wait in place meanwhile, so none becomes a dead letter for a fault that is not its own. Then one
    goes through as a trial: if it succeeds the others follow, else all rest again. Only errors of the classes
    ``only`` count. One object guards all endpoints it is given to: those that need the same thing.
    """

    def __init__(
        self,
        failures: int = 5,
        rest: float = 30.0,
        only: tuple[type[Exception], ...] = (Exception,),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        at_least("failures", failures, 0, whole=True)
        at_least("rest", rest, 0)
        if failures < 1 or not rest > 0:
            raise ConfigurationError(
                f"A breaker cannot open after {failures} failures for {rest:g} seconds.",
                next="Use 1 failure or more, and a rest above 0.",
            )
        self._most = failures
        self._rest = rest
        self._only = only
        self._clock = clock
        self._failures = 0
        self._closes_at: float | None = None
        self._trial: asyncio.Future[None] | None = None

    @property
    def open(self) -> bool:
        return self._closes_at is not None

    async def __call__(self, delivery: Delivery, next: Handler) -> Outcome:
        while (closes_at := self._closes_at) is not None:
            remaining = closes_at - self._clock()
            if remaining > 0:
                if not await delivery.pause(remaining):
                    return again()
                if self._closes_at == closes_at:
                    # The rest is over by the client's clock, which need not be ours.
                    self._closes_at = self._clock()
            elif self._trial is not None:
                await asyncio.wait((self._trial,))
            else:
                return await self._try(delivery, next)
        return await self._call(delivery, next)

    async def _try(self, delivery: Delivery, next: Handler) -> Outcome:
        self._trial = trial = asyncio.get_running_loop().create_future()
        try:
            return await self._call(delivery, next)
        finally:
            self._trial = None
            trial.set_result(None)

    async def _call(self, delivery: Delivery, next: Handler) -> Outcome:
        try:
            outcome = await next(delivery)
        except self._only as error:
            self._failures += 1
            if self._failures >= self._most:
                self._trip(delivery, error)
            raise
        self._failures = 0
        self._closes_at = None
        return outcome

    def _trip(self, delivery: Delivery, error: Exception) -> None:
        if self._closes_at is None:
            log.error(
                "Handlers rest: too many have failed in a row.",
                extra=delivery.place() | {"error_type": type(error).__name__, "rest": self._rest},
            )
        self._closes_at = self._clock() + self._rest
