"""From one broker to another: the same envelope, one hop on."""

from __future__ import annotations

import logging
import time

from dragoman.client.client import Client
from dragoman.client.delivery import Delivery
from dragoman.client.endpoint import endpoint
from dragoman.client.headers import EXPIRES_AT, REPLY_TO
from dragoman.client.options import EndpointOptions, RetryOptions
from dragoman.client.outcome import Handler, Outcome, again
from dragoman.core.errors import (
    BrokerUnavailable,
    ClientClosed,
    Refused,
    RegistryUnavailable,
    RemoteFailure,
    ReplyTimeout,
)
from dragoman.core.message import Headers, Message, header
from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.headers import HOPS, MESSAGE_ID, hops_left

log = logging.getLogger("dragoman.gateway")

REST = 1.0
"""Seconds until an envelope is tried again that could not be forwarded."""
_KEPT = (MESSAGE_ID, EXPIRES_AT)
_AT_ONCE = 64
"""Envelopes of one partition that are forwarded, or whose answers are waited for, at once."""
_PATIENCE = 30.0
"""Seconds to wait for the answer to a request that does not say until when it is of use."""


async def patience(delivery: Delivery, next: Handler) -> Outcome:
    """While the other broker is away, or the client there is closed, an envelope stays in this one."""
    try:
        return await next(delivery)
    except (BrokerUnavailable, RegistryUnavailable, ClientClosed):
        return again(REST)


def bridge(
    channel: str, to: Client, *, target: str | None = None, group: str = "bridge", counted: bool = True
) -> object:
    """An endpoint for a client on one broker that forwards envelopes to a client on another.

    Requests count a hop each time; one that has none left becomes a dead letter. Responses, which go back
    the way once, are forwarded with ``counted=False``. What is forwarded is acknowledged here once the other
    broker has it, however long that takes.

    A request with a return address, such as ``Call.ask`` sends, is asked on the other broker under an address
    there, since its own means nothing there. The answer comes back to the request's own address. It is
    acknowledged here when it is answered, or when no caller waits for it any more. Order holds per key.
    """
    retry = RetryOptions(never=(Refused, RemoteFailure))
    options = EndpointOptions(retry=retry, concurrency=_AT_ONCE)

    # Answers go to the return address only. The channel is named since its contract is that of answers, too.
    @endpoint(channel, reply_to=channel, group=group, options=options, middleware=[patience])
    async def forward(envelope: Envelope, message: Message) -> Envelope | None:
        headers = tuple(pair for pair in message.headers if pair[0] in _KEPT)
        if counted:
            left = hops_left(message.headers)
            if left < 1:
                raise Refused("The envelope has been forwarded too often.", code="gateway.hops")
            headers = (*headers, (HOPS, str(left - 1).encode()))
        if header(message.headers, REPLY_TO) is None:
            await to.publish(target or channel, envelope, key=message.key, headers=headers)
            return None
        return await _asked(to, target or channel, envelope, message, headers)

    return forward


async def _asked(
    to: Client, channel: str, envelope: Envelope, message: Message, headers: Headers
) -> Envelope | None:
    expires = header(message.headers, EXPIRES_AT)
    known = expires is not None and expires.isdigit()
    seconds = int(expires or b"0") / 1000 - time.time() if known else _PATIENCE
    try:
        return await to.request(
            channel,
            envelope,
            reply=Envelope,
            timeout=max(0.0, seconds),
            key=message.key,
            headers=headers,
        )
    except ReplyTimeout:
        log.info("There was no answer from the other broker in time.", extra={"channel": channel})
        return None
