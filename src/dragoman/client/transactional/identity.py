"""What tells a message from all others, however often it is delivered or sent."""

from __future__ import annotations

import hashlib

from dragoman.client.correlation import Correlation
from dragoman.client.delivery import Delivery
from dragoman.client.headers import MESSAGE_ID, new_message_id
from dragoman.core.broker import Broker
from dragoman.core.errors import MessageError
from dragoman.core.message import Message

_LONGEST = 200


def needs_ids(broker: Broker) -> bool:
    """Whether messages have no position by which they could be told apart, so that each gets an id."""
    return not broker.capabilities.replay


def identity_of(delivery: Delivery, place: Correlation | None, by_position: bool) -> str:
    """By the declared place, else by its message id, else by where it stands in the channel.

    That counts only where the broker keeps positions for good. The time is part of it: a channel that was
    made anew begins to count anew.
    """
    message = delivery.message
    if place is None:
        found = message.header(MESSAGE_ID)
    elif place.part == "header":
        found = place.in_headers(message.headers)
    else:
        found = place.in_value(delivery.value)
    if found is not None:
        # An id need not be text, and two that differ must differ here.
        return _short(f"{message.channel}/{found.decode(errors='backslashreplace')}")
    if place is not None or message.offset is None or not by_position:
        raise MessageError(
            "The message cannot be told from others, so it cannot be handled just once.",
            code="message.identity",
            next=f"Publish it with the header {MESSAGE_ID}, or with a value at the place that was declared.",
        )
    return _short(f"{message.channel}:{message.partition}:{message.offset}@{message.timestamp}")


def answer_id(delivery: Delivery, answer: Message) -> bytes:
    """The message id of an answer: the same each time the same endpoint answers a request the same way.

    So an answer that is sent again, after a crash between sending it and acknowledging the request, is
    known as a repetition. An answer that differs has another id, so that no receiver takes it for one. If
    the request has no id, each answer has an id of its own.
    """
    request = delivery.message.header(MESSAGE_ID)
    if request is None:
        return new_message_id()
    route = delivery.route
    of_request = (delivery.message.channel.encode(), request, route.group.encode(), route.endpoint.encode())
    headers = [part for name, value in answer.headers for part in (name.encode(), value)]
    digest = hashlib.blake2b(digest_size=16)
    for part in (*of_request, answer.channel.encode(), answer.payload or b"", *headers):
        # With its length, so that parts that are cut differently make another digest.
        digest.update(b"%d:" % len(part) + part)
    return digest.hexdigest().encode()


def _short(text: str) -> str:
    """Fit for a column with an index."""
    if len(text) <= _LONGEST and "\0" not in text:
        return text
    return hashlib.sha256(text.encode()).hexdigest()
