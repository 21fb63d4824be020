"""Datagrams: what is readable from outside, and where the sealed part begins."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

MAX_DATAGRAM = 1200
TAG = 16
SESSION = 8
KEY = 32
NONCE = 12
KEM_CIPHERTEXT = 1088
LONGEST_COOKIE = 40
"""More would not leave room for the time in an INIT with a KEM ciphertext."""
LAST_NUMBER = 2**31
"""A session ends before its datagrams have used this many numbers."""

_SHORT = struct.Struct(">B8sI")
_INIT = struct.Struct(">B8sIB32s")
_ACCEPT = struct.Struct(">B8sI32s")
_RETRY = struct.Struct(">B8s12s")


class Type(IntEnum):
    """The upper half of the first byte is the protocol's version."""

    INIT = 0x11
    """Client: opens a session."""
    EARLY = 0x12
    """Client: more of the first flight, before the server was heard."""
    RETRY = 0x13
    """Server: come again, with this cookie, at this time."""
    ACCEPT = 0x14
    """Server: anything, until the client was heard to know the session's keys."""
    DATA = 0x15
    """Both: anything, from then on."""


class Datagram(NamedTuple):
    """``head`` is sent in the clear and authenticated with the rest. ``number`` is 0 for a RETRY."""

    type: Type
    session: bytes
    number: int
    head: bytes
    sealed: bytes
    suite: int = 0
    public: bytes = b""
    ciphertext: bytes = b""
    cookie: bytes = b""
    nonce: bytes = b""


def init_head(
    session: bytes, number: int, suite: int, public: bytes, ciphertext: bytes, cookie: bytes
) -> bytes:
    return _INIT.pack(Type.INIT, session, number, suite, public) + ciphertext + bytes([len(cookie)]) + cookie


def accept_head(session: bytes, number: int, public: bytes) -> bytes:
    return _ACCEPT.pack(Type.ACCEPT, session, number, public)


def short_head(type: Type, session: bytes, number: int) -> bytes:
    return _SHORT.pack(type, session, number)


def retry_head(session: bytes, nonce: bytes) -> bytes:
    return _RETRY.pack(Type.RETRY, session, nonce)


def nonce_of(number: int) -> bytes:
    return number.to_bytes(NONCE, "big")


def read_datagram(data: bytes) -> Datagram | None:
    """``None`` for anything that no SEP peer sends: it is dropped without an answer."""
    if not TAG < len(data) <= MAX_DATAGRAM:
        return None
    try:
        kind = Type(data[0])
        match kind:
            case Type.INIT:
                return _read_init(data)
            case Type.ACCEPT:
                _, session, number, public = _ACCEPT.unpack_from(data)
                head = data[: _ACCEPT.size]
                return Datagram(kind, session, number, head, data[_ACCEPT.size :], public=public)
            case Type.RETRY:
                _, session, nonce = _RETRY.unpack_from(data)
                return Datagram(kind, session, 0, data[: _RETRY.size], data[_RETRY.size :], nonce=nonce)
            case _:
                _, session, number = _SHORT.unpack_from(data)
                return Datagram(kind, session, number, data[: _SHORT.size], data[_SHORT.size :])
    except (ValueError, struct.error):
        return None


def _read_init(data: bytes) -> Datagram | None:
    _, session, number, suite, public = _INIT.unpack_from(data)
    at = _INIT.size + (KEM_CIPHERTEXT if suite == 2 else 0)
    ciphertext = data[_INIT.size : at]
    if suite not in (1, 2) or len(data) <= at:
        return None
    end = at + 1 + data[at]
    if data[at] > LONGEST_COOKIE or len(data) < end + TAG:
        return None
    return Datagram(
        Type.INIT, session, number, data[:end], data[end:], suite, public, ciphertext, data[at + 1 : end]
    )
