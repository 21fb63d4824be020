"""What is inside a RETRY: a cookie, and the server's clock."""

from __future__ import annotations

import struct
from typing import NamedTuple

from dragoman.gateway.sep.datagram import LONGEST_COOKIE
from dragoman.gateway.sep.frames import MalformedFrames

_FIXED = struct.Struct(">QB")


class Retry(NamedTuple):
    cookie: bytes
    milliseconds: int
    """The server's time since the epoch: the client counts from there."""


def pack_retry(retry: Retry) -> bytes:
    return _FIXED.pack(retry.milliseconds, len(retry.cookie)) + retry.cookie


def read_retry(data: bytes) -> Retry:
    if len(data) < _FIXED.size:
        raise MalformedFrames
    milliseconds, size = _FIXED.unpack_from(data)
    cookie = data[_FIXED.size :]
    if size != len(cookie) or size > LONGEST_COOKIE:
        raise MalformedFrames
    return Retry(cookie, milliseconds)
