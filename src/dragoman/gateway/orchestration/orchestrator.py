"""``@orchestrator``: a class that answers the requests for one resource.

    @orchestrator("service.shares")
    class Shares:
        @on("select", "movement")
        async def movement(self, wanted: Wanted, call: Call) -> Movement:
            price = await call.ask("service.prices", "select", "price", wanted, reply=Price)
            return Movement(wanted.share, price.change)

It is a controller on the channel of that name, with all that endpoints have: retries, dead letters, groups.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from dragoman.client.cancellation import coming_failure
from dragoman.client.client import Client
from dragoman.client.controller import controller
from dragoman.client.delivery import Delivery
from dragoman.client.endpoint import endpoint
from dragoman.client.headers import REPLY_TO
from dragoman.client.middleware.retry import worth_trying
from dragoman.client.options import EndpointOptions, RetryOptions
from dragoman.client.outcome import Handler, Outcome
from dragoman.core.errors import ConstraintViolated, DecodeError, Refused, RequestFailed
from dragoman.core.message import Message, header
from dragoman.gateway.envelope.derivation import OK, STATUS, failure, response
from dragoman.gateway.envelope.model import Envelope, datum
from dragoman.gateway.orchestration.call import Call
from dragoman.gateway.orchestration.outcomes import Outcomes
from dragoman.gateway.orchestration.routing import Routes
from dragoman.gateway.security.passes import Passes

C = TypeVar("C", bound=type)

_attempt: ContextVar[int] = ContextVar("attempt", default=1)
_USUAL = EndpointOptions(retry=RetryOptions(attempts=3), concurrency=16)


@dataclass(frozen=True, slots=True)
class Terms:
    """What ``@orchestrator`` was told."""

    resource: str
    collection_point: str
    options: EndpointOptions
    passes: Passes | None
    outcomes: Outcomes | None


def orchestrator(
    resource: str,
    *,
    collection_point: str = "service.collection",
    group: str | None = None,
    options: EndpointOptions | None = None,
    passes: Passes | None = None,
    outcomes: Outcomes | None = None,
) -> Callable[[C], C]:
    """Make an orchestrator of a class whose methods are marked with ``@on``.

    A method takes a record, made from the data, or the whole ``Envelope``, and the ``Call`` if it wants it.
    What it returns, a record, data or an envelope, is the response. ``RequestFailed`` is answered as a
    failure at once; any other error is tried again, then answered as a failure and kept as a dead letter.
    With ``passes`` only requests with a good pass are handled; with ``outcomes`` none is handled twice.
    """
    usual = options or _USUAL
    retry = replace(usual.retry, never=(*usual.retry.never, Refused))
    terms = Terms(resource, collection_point, replace(usual, retry=retry), passes, outcomes)

    def decorate(cls: C) -> C:
        routes = Routes(cls)

        @endpoint(resource, reply_to=collection_point, options=terms.options, middleware=[_counted])
        async def on_request(self: Any, request: Envelope, message: Message, client: Client) -> Envelope:
            return await _Answering(terms, routes, self, client).answer(request, message)

        setattr(cls, on_request.__name__, on_request)
        return controller(group=group or resource)(cls)

    return decorate


async def _counted(delivery: Delivery, next: Handler) -> Outcome:
    """Tells the orchestrator which attempt this is: at the last one it answers, too."""
    _attempt.set(delivery.attempt)
    return await next(delivery)


@dataclass(frozen=True, slots=True)
class _Answering:
    terms: Terms
    routes: Routes
    instance: Any
    client: Client

    async def answer(self, request: Envelope, message: Message) -> Envelope:
        terms = self.terms
        shown = None if terms.passes is None else terms.passes.check(request, terms.resource)
        nested = header(message.headers, REPLY_TO) is not None
        to = None if nested else terms.collection_point
        call = Call(
            request, message, self.client, terms.resource, terms.passes, "" if shown is None else shown.owner
        )
        try:
            if terms.outcomes is not None:
                before = await terms.outcomes.recall(terms.resource, message)
                if before is not None:
                    return before
            made = await self._made(request, call, to)
        except BaseException as error:
            failure = coming_failure(error)
            if not nested and self._is_last(failure):
                await self._tell(request, message)
            raise
        if terms.outcomes is not None:
            await terms.outcomes.keep(terms.resource, message, made)
        return made

    async def _made(self, request: Envelope, call: Call, to: str | None) -> Envelope:
        """The response: the method's own, or a failure that it or the request is to blame for."""
        source = self.terms.resource
        found = self.routes.find(request.destination)
        if found is None:
            return failure(request, "Unsupported", "Nobody here does this.", source=source, to=to)
        try:
            arguments = found.arguments(request, call)
        except (DecodeError, ConstraintViolated) as error:
            return failure(request, "Invalid", str(error), source=source, to=to)
        try:
            async with asyncio.timeout(found.timeout):
                result = await _called(getattr(self.instance, found.name), arguments)
        except RequestFailed as error:
            status = str(error.where.get("status", "Failed"))
            return failure(request, status, error.what, source=source, to=to)
        if isinstance(result, Envelope):
            return result
        data = [datum(STATUS, OK)] if result is None else result
        return response(request, data, source=source, to=to)

    def _is_last(self, error: Exception) -> bool:
        retry = self.terms.options.retry
        return _attempt.get() >= retry.attempts or not worth_trying(retry, error)

    async def _tell(self, request: Envelope, message: Message) -> None:
        """Whoever waits outside is told that there will be no answer. Why, is in the dead letter."""
        terms = self.terms
        answer = failure(
            request,
            "Failed",
            "The request could not be handled.",
            source=terms.resource,
            to=terms.collection_point,
        )
        await self.client.publish(terms.collection_point, answer, key=message.key)


async def _called(method: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(method):
        return await method(**arguments)
    result = await asyncio.to_thread(method, **arguments)
    return await result if isinstance(result, Awaitable) else result
