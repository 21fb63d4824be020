"""Responses on the collection point's channel, into the store; on the ordinary delivery loop."""

from __future__ import annotations

from dragoman.client.delivery import Delivery
from dragoman.client.endpoint import endpoint
from dragoman.client.options import EndpointOptions, RetryOptions
from dragoman.client.outcome import Handler, Outcome, again
from dragoman.core.errors import NotNow, Refused
from dragoman.gateway.collection import Collection
from dragoman.gateway.envelope.model import Envelope

_AT_ONCE = 64


async def patience(delivery: Delivery, next: Handler) -> Outcome:
    """While the store is away a response stays in the broker: it is no fault of the response."""
    try:
        return await next(delivery)
    except NotNow as error:
        return again(error.retry_after)


def intake(collection: Collection, channel: str, group: str) -> object:
    """The endpoint of a collection point. What answers no request of ours goes to the dead letters."""
    options = EndpointOptions(retry=RetryOptions(never=(Refused,)), concurrency=_AT_ONCE)

    @endpoint(channel, group=group, options=options, middleware=[patience])
    async def hold(response: Envelope) -> None:
        await collection.hold(response)

    return hold
