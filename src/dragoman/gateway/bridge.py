"""From one broker to another: the same envelope, one hop on."""

from __future__ import annotations

from dragoman.client.client import Client
from dragoman.client.delivery import Delivery
from dragoman.client.endpoint import endpoint
from dragoman.client.headers import EXPIRES_AT
from dragoman.client.options import EndpointOptions, RetryOptions
from dragoman.client.outcome import Handler, Outcome, again
from dragoman.core.errors import BrokerUnavailable, Refused, RegistryUnavailable
from dragoman.core.message import Message
from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.headers import HOPS, MESSAGE_ID, hops_left

REST = 1.0
"""Seconds until an envelope is tried again while the other broker is away."""
_KEPT = (MESSAGE_ID, EXPIRES_AT)


async def patience(delivery: Delivery, next: Handler) -> Outcome:
    """While the other broker is away an envelope stays in this one: it is no fault of the envelope."""
    try:
        return await next(delivery)
    except (BrokerUnavailable, RegistryUnavailable):
        return again(REST)


def bridge(
    channel: str, to: Client, *, target: str | None = None, group: str = "bridge", counted: bool = True
) -> object:
    """An endpoint for a client on one broker that forwards envelopes to a client on another.

    Requests count a hop each time; one that has none left becomes a dead letter. Responses, which go back
    the way once, are forwarded with ``counted=False``. What is forwarded is acknowledged here once the other
    broker has it, however long that takes.
    """
    options = EndpointOptions(retry=RetryOptions(never=(Refused,)))

    @endpoint(channel, group=group, options=options, middleware=[patience])
    async def forward(envelope: Envelope, message: Message) -> None:
        headers = tuple(pair for pair in message.headers if pair[0] in _KEPT)
        if counted:
            left = hops_left(message.headers)
            if left < 1:
                raise Refused("The envelope has been forwarded too often.", code="gateway.hops")
            headers = (*headers, (HOPS, str(left - 1).encode()))
        await to.publish(target or channel, envelope, key=message.key, headers=headers)

    return forward
