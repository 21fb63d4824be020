"""What is inside a datagram: frames, one behind the other."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_PAD, _TIME, _PART, _ACK, _COOKIE, _REFUSE, _CLOSE = range(7)

_TIME_FRAME = struct.Struct(">BQ")
_PART_FRAME = struct.Struct(">BIHHH")
_ACK_FRAME = struct.Struct(">BIHH")
_COOKIE_FRAME = struct.Struct(">BB")
_REFUSE_FRAME = struct.Struct(">BIB")


class Time(NamedTuple):
    """The client's clock, milliseconds since the epoch. First in every INIT."""

    milliseconds: int


class Part(NamedTuple):
    """Part ``at``, from 0, of the ``of`` parts of the message that this side sends on a stream."""

    stream: int
    at: int
    of: int
    data: bytes


class Ack(NamedTuple):
    """Which parts of the other side's message have come: part ``n`` is bit ``n % 8`` of byte ``n // 8``."""

    stream: int
    of: int
    bitmap: bytes


class Cookie(NamedTuple):
    """For the client to open its next session with."""

    cookie: bytes


class Refuse(NamedTuple):
    """The message on this stream is not taken. ``reason`` is one of ``Refusal``."""

    stream: int
    reason: int


class Close(NamedTuple):
    """The session is over."""


Frame = Time | Part | Ack | Cookie | Refuse | Close


class Refusal:
    """Why a stream is refused."""

    TOO_LARGE = 1
    TOO_MANY = 2
    DAMAGED = 3
    """The digest of the whole message is wrong."""


def pack_frame(frame: Frame) -> bytes:
    match frame:
        case Part(stream, index, count, data):
            return _PART_FRAME.pack(_PART, stream, index, count, len(data)) + data
        case Ack(stream, count, bitmap):
            return _ACK_FRAME.pack(_ACK, stream, count, len(bitmap)) + bitmap
        case Time(milliseconds):
            return _TIME_FRAME.pack(_TIME, milliseconds)
        case Cookie(cookie):
            return _COOKIE_FRAME.pack(_COOKIE, len(cookie)) + cookie
        case Refuse(stream, reason):
            return _REFUSE_FRAME.pack(_REFUSE, stream, reason)
        case Close():
            return bytes([_CLOSE])


class MalformedFrames(Exception):
    """The inside of an authentic datagram is wrong: the peer is at fault, and gets no answer."""


def read_frames(data: bytes) -> list[Frame]:
    """Raises ``MalformedFrames``. Padding, which is nothing but zeros to the end, is left out."""
    try:
        return list(_frames(data))
    except (struct.error, IndexError) as error:
        raise MalformedFrames from error


def _frames(data: bytes) -> Iterator[Frame]:
    at = 0
    while at < len(data):
        kind = data[at]
        if kind == _PART:
            _, stream, index, count, size = _PART_FRAME.unpack_from(data, at)
            at += _PART_FRAME.size
            if index >= count:
                raise MalformedFrames
            yield Part(stream, index, count, _taken(data, at, size))
            at += size
        elif kind == _ACK:
            _, stream, count, size = _ACK_FRAME.unpack_from(data, at)
            at += _ACK_FRAME.size
            if size != (count + 7) // 8:
                raise MalformedFrames
            yield Ack(stream, count, _taken(data, at, size))
            at += size
        elif kind == _TIME:
            yield Time(_TIME_FRAME.unpack_from(data, at)[1])
            at += _TIME_FRAME.size
        elif kind == _COOKIE:
            size = _COOKIE_FRAME.unpack_from(data, at)[1]
            at += _COOKIE_FRAME.size
            yield Cookie(_taken(data, at, size))
            at += size
        elif kind == _REFUSE:
            _, stream, reason = _REFUSE_FRAME.unpack_from(data, at)
            yield Refuse(stream, reason)
            at += _REFUSE_FRAME.size
        elif kind == _CLOSE:
            yield Close()
            at += 1
        elif kind == _PAD and not any(data[at:]):
            return
        else:
            raise MalformedFrames


def _taken(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise MalformedFrames
    return data[at : at + size]
