"""Replies: the return value of an endpoint, sent before its request is acknowledged."""

from __future__ import annotations

import logging
from typing import Any

from dragoman.client.contracts import Bound
from dragoman.client.delivery import Delivery
from dragoman.client.headers import CORRELATION_ID, REPLY_TO
from dragoman.client.invocation import Reply
from dragoman.client.metrics import ChannelMetrics
from dragoman.core.broker import Broker
from dragoman.core.errors import ChannelNotFound, EncodeError
from dragoman.core.message import Message, header

log = logging.getLogger("dragoman.client")


def replies(broker: Broker, channel: str | None, bound: Bound, counters: ChannelMetrics) -> Reply:
    """To the request's return address if it has one, else to ``channel``; to nobody without either."""

    async def reply(delivery: Delivery, value: Any) -> None:
        request = delivery.message
        address = header(request.headers, REPLY_TO) if request.headers else None
        target = channel if address is None else _name(address)
        if target is None:
            return
        correlation = header(request.headers, CORRELATION_ID)
        pairs = () if correlation is None else ((CORRELATION_ID, correlation),)
        answer = Message(target, bound.encode(value), request.key, pairs)
        try:
            await broker.publish([answer])
        except ChannelNotFound:
            if address is None:
                raise
            # Whoever asked has left, and has taken the return address along. The work is done all the same.
            log.info("Nobody waits for a reply any more.", extra=delivery.place() | {"reply_to": target})
        else:
            counters.replied += 1

    return reply


def _name(address: bytes) -> str:
    try:
        return address.decode()
    except UnicodeDecodeError as error:
        raise EncodeError("The return address is not text.", code="message.reply-to") from error
