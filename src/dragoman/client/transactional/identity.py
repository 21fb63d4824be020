"""What tells a message from all others, however often it is delivered or sent."""

from __future__ import annotations

import hashlib

from dragoman.client.correlation import Correlation
from dragoman.client.delivery import Delivery
from dragoman.client.headers import MESSAGE_ID
from dragoman.core.errors import MessageError

_LONGEST = 200


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


def _short(text: str) -> str:
    """Fit for a column with an index."""
    if len(text) <= _LONGEST and "\0" not in text:
        return text
    return hashlib.sha256(text.encode()).hexdigest()
