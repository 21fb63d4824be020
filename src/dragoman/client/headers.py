"""The headers that messages carry, and how they are written."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TypeVar

from dragoman.core.errors import EncodeError
from dragoman.core.message import Headers, header

T = TypeVar("T")

CORRELATION_ID = "correlation-id"
REPLY_TO = "reply-to"
"""The return address: the channel where the sender waits for the reply."""
MESSAGE_ID = "message-id"
"""Tells the message from all others, however often it is sent."""
EXPIRES_AT = "expires-at"
"""Milliseconds since the epoch, as text."""

SEQUENCE_ID = "sequence-id"
SEQUENCE_POSITION = "sequence-position"
"""Which part of the sequence, from 0."""
SEQUENCE_SIZE = "sequence-size"
"""How many parts there are."""
RAISED = "dragoman-raised"
"""On a reply that is a declared error: the full name of its record."""
SENDS = "dragoman-sends"
"""On a saga's command: how often it was sent before, under the same message id. Brokers that drop repetitions
must let it pass: it is sent again on purpose, because the answer was lost or unknown."""
REPLY_NUMBER = "dragoman-reply-number"
"""On a reply that is one of several: which, from 0."""
REPLY_END = "dragoman-reply-end"
"""On the message behind the last of several replies: how many there were."""

ORIGINAL_CHANNEL = "dragoman-original-channel"
ORIGINAL_PARTITION = "dragoman-original-partition"
ORIGINAL_OFFSET = "dragoman-original-offset"
ORIGINAL_TIMESTAMP = "dragoman-original-timestamp"
CONTRACT = "dragoman-contract"
CONTRACT_VERSION = "dragoman-contract-version"
GROUP = "dragoman-group"
ENDPOINT = "dragoman-endpoint"
ERROR_CODE = "dragoman-error-code"
ERROR_TYPE = "dragoman-error-type"
ERROR_MESSAGE = "dragoman-error-message"
ERROR_REFERENCE = "dragoman-error-reference"
"""The same on a letter and in what the requester is told of it."""
ATTEMPTS = "dragoman-attempts"
"""Calls of the handler in the last delivery."""
DELIVERIES = "dragoman-deliveries"
FIRST_FAILED_AT = "dragoman-first-failed-at"
FAILED_AT = "dragoman-failed-at"
RETRIES = "dragoman-retries"
"""How often the message was tried again later, by way of a retry channel."""
NOT_BEFORE = "dragoman-not-before"
"""On a message in a retry channel: when it is due, in milliseconds since the epoch."""
REPLAYS = "dragoman-replays"
"""How often the message went back from the dead letters."""
REPLAYED_FROM = "dragoman-replayed-from"
"""channel:partition:offset of the message that this one repeats."""
LAST_ERROR_CODE = "dragoman-last-error-code"
"""Why a message was a dead letter before it was sent back."""
SETTLED = "dragoman-settled"
"""On a marker in a dead-letter channel: partition:offset of the letter that is dealt with."""
SETTLED_AS = "dragoman-settled-as"

CAUSE = frozenset(
    {
        ORIGINAL_CHANNEL,
        ORIGINAL_PARTITION,
        ORIGINAL_OFFSET,
        ORIGINAL_TIMESTAMP,
        CONTRACT,
        CONTRACT_VERSION,
        GROUP,
        ENDPOINT,
        ERROR_CODE,
        ERROR_TYPE,
        ERROR_MESSAGE,
        ERROR_REFERENCE,
        ATTEMPTS,
        DELIVERIES,
        FIRST_FAILED_AT,
        FAILED_AT,
        RETRIES,
    }
)
"""What is added to a message that becomes a dead letter or an invalid message."""

GivenHeaders = Mapping[str, str | bytes] | Headers


def headers_of(given: GivenHeaders | None) -> Headers:
    """Headers as a caller may write them, as pairs of bytes."""
    if not given:
        return ()
    pairs = given.items() if isinstance(given, Mapping) else given
    if not all(isinstance(each, tuple) and len(each) == 2 for each in pairs):
        raise EncodeError(
            "The headers are not pairs.", code="message.header", next="Use a dict of names and values."
        )
    return tuple((_checked(name, str), _bytes(name, value)) for name, value in pairs)


def _bytes(name: str, value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else _checked(value, bytes, name)


def _checked(value: T, wanted: type[T], header: str | None = None) -> T:
    if isinstance(value, wanted):
        return value
    what = "The name of a header" if header is None else f"The header {header!r}"
    raise EncodeError(
        f"{what} is {type(value).__name__}.",
        code="message.header",
        next="Names are str, values str or bytes.",
    )


def new_message_id() -> bytes:
    return secrets.token_hex(16).encode()


def named(pairs: Headers) -> Headers:
    """With a message id, unless there is one."""
    if header(pairs, MESSAGE_ID) is not None:
        return pairs
    return (*pairs, (MESSAGE_ID, new_message_id()))


def expiring(moment: float) -> tuple[str, bytes]:
    """What says that a message is of no use after a moment, in seconds since the epoch."""
    return EXPIRES_AT, b"%d" % int(moment * 1000)


def text_of(value: bytes | None) -> str:
    """A header for people: what is not text is shown with marks, never an error."""
    return "" if value is None else value.decode("utf-8", "replace")
