"""Whole messages: requests and replies, each with a digest over all of it."""

from __future__ import annotations

import hashlib
import hmac
from enum import IntEnum
from typing import NamedTuple

PART_BYTES = 1024
"""So large that a part fits beside any header."""
MOST_PARTS = 8192
"""So many that an acknowledgement of all fits into one datagram."""
DIGEST = 32


class Operation(IntEnum):
    DROP_OFF = 1
    COLLECT = 2


FIRST_FLIGHT = frozenset({Operation.DROP_OFF})
"""What is carried out before the client has shown that it is there now.

The first flight can be recorded and sent to another server of the same key, or to this one after a restart. A
drop-off is told apart by its request id, so it is safe. Anything else waits for the client's first DATA."""


class Reply(NamedTuple):
    """``status`` has the meaning it has in HTTP."""

    status: int
    body: bytes = b""


class Damaged(Exception):
    """The parts are all there, and are not what was sent."""


def pack_request(operation: Operation, body: bytes) -> bytes:
    return _with_digest(bytes([operation]) + body)


def read_request(message: bytes) -> tuple[Operation, bytes]:
    content = _checked(message, 1)
    try:
        return Operation(content[0]), content[1:]
    except ValueError as error:
        raise Damaged from error


def pack_reply(reply: Reply) -> bytes:
    return _with_digest(reply.status.to_bytes(2, "big") + reply.body)


def read_reply(message: bytes) -> Reply:
    content = _checked(message, 2)
    return Reply(int.from_bytes(content[:2], "big"), content[2:])


def parts_of(message: bytes) -> list[bytes]:
    return [message[at : at + PART_BYTES] for at in range(0, len(message), PART_BYTES)]


def parts_in(size: int) -> int:
    """How many parts a message of so many bytes has."""
    return -(-size // PART_BYTES)


def _with_digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest() + content


def _checked(message: bytes, least: int) -> bytes:
    content = message[DIGEST:]
    if len(content) < least or not hmac.compare_digest(hashlib.sha256(content).digest(), message[:DIGEST]):
        raise Damaged
    return content
