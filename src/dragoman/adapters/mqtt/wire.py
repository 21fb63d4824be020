"""MQTT packets, 3.1.1 and 5: from values to bytes and back. Neither input nor output.

A client's own way to the wire, since acknowledging has to wait for handlers: with quality of service 2 the
libraries for Python take a message over (PUBREC) before anybody has handled it, and a crash loses it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

V311, V5 = 4, 5
LONGEST = 268_435_455
"""Bytes that may follow a packet's header."""


class Kind(IntEnum):
    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


class Property(IntEnum):
    """Those that we send or read. The others are read over."""

    MESSAGE_EXPIRY = 0x02
    SESSION_EXPIRY = 0x11
    SERVER_KEEP_ALIVE = 0x13
    WILL_DELAY = 0x18
    REASON = 0x1F
    RECEIVE_MAXIMUM = 0x21
    MAXIMUM_QOS = 0x24
    USER = 0x26
    MAXIMUM_PACKET_SIZE = 0x27
    SHARED_SUBSCRIPTIONS = 0x2A


_BYTE, _SHORT, _LONG, _NUMBER, _BINARY, _TEXT, _PAIR = range(7)
_TYPES = {
    **dict.fromkeys((0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A), _BYTE),
    **dict.fromkeys((0x13, 0x21, 0x22, 0x23), _SHORT),
    **dict.fromkeys((0x02, 0x11, 0x18, 0x27), _LONG),
    0x0B: _NUMBER,
    **dict.fromkeys((0x09, 0x16), _BINARY),
    **dict.fromkeys((0x03, 0x08, 0x12, 0x15, 0x1A, 0x1C, 0x1F), _TEXT),
    0x26: _PAIR,
}
_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")

PINGREQ = bytes((Kind.PINGREQ << 4, 0))

User = tuple[tuple[str, str], ...]


class Malformed(Exception):
    """The bytes are no packet of MQTT."""


class Packet(NamedTuple):
    kind: int
    flags: int
    body: memoryview


class Properties(NamedTuple):
    values: Mapping[int, int | str | bytes]
    user: User


_NO_PROPERTIES = Properties({}, ())


class Incoming(NamedTuple):
    """A PUBLISH that came. ``packet`` is 0 with quality of service 0."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    again: bool
    packet: int
    user: User


class Answer(NamedTuple):
    """What a server says to one of our packets."""

    packet: int
    reasons: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Will:
    """What the server publishes for us when we are gone without a word."""

    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = False
    delay: int = 0
    expiry: int | None = None


@dataclass(frozen=True, slots=True)
class Connect:
    client: str
    clean: bool
    keep_alive: int
    username: str | None = None
    password: str | None = None
    will: Will | None = None
    session_expiry: int = 0
    receive_maximum: int | None = None


def text(value: str) -> bytes:
    raw = value.encode()
    if len(raw) > 0xFFFF:
        raise ValueError("longer than 65,535 bytes.")
    return _U16.pack(len(raw)) + raw


def _binary(value: bytes) -> bytes:
    return _U16.pack(len(value)) + value


def length(number: int) -> bytes:
    """A number of up to four bytes, seven bits in each."""
    found = bytearray()
    while True:
        number, low = divmod(number, 128)
        found.append(low | (0x80 if number else 0))
        if not number:
            return bytes(found)


def properties(values: Mapping[Property, int]) -> bytes:
    """Numbers only: what we send beside user properties."""
    body = b"".join(
        bytes((name,)) + (_U32 if _TYPES[name] == _LONG else _U16).pack(value)
        for name, value in values.items()
    )
    return length(len(body)) + body


def _packet(kind: int, flags: int, *parts: bytes) -> bytes:
    size = sum(map(len, parts))
    if size > LONGEST:
        raise ValueError("more than 256 MiB.")
    return b"".join((bytes(((kind << 4) | flags,)), length(size), *parts))


def connect(wanted: Connect, version: int) -> bytes:
    will = wanted.will
    flags = 0x02 * wanted.clean | 0x80 * (wanted.username is not None) | 0x40 * (wanted.password is not None)
    if will is not None:
        flags |= 0x04 | will.qos << 3 | 0x20 * will.retain
    parts = [text("MQTT"), bytes((version, flags)), _U16.pack(wanted.keep_alive)]
    if version == V5:
        asked = {Property.SESSION_EXPIRY: wanted.session_expiry}
        if wanted.receive_maximum is not None:
            asked[Property.RECEIVE_MAXIMUM] = wanted.receive_maximum
        parts.append(properties(asked))
    parts.append(text(wanted.client))
    if will is not None:
        if version == V5:
            limits = {Property.WILL_DELAY: will.delay}
            if will.expiry is not None:
                limits[Property.MESSAGE_EXPIRY] = will.expiry
            parts.append(properties(limits))
        parts += (text(will.topic), _binary(will.payload))
    if wanted.username is not None:
        parts.append(text(wanted.username))
    if wanted.password is not None:
        parts.append(_binary(wanted.password.encode()))
    return _packet(Kind.CONNECT, 0, *parts)


def publish(topic: bytes, payload: bytes, qos: int, retain: bool, packet: int, extra: bytes) -> bytes:
    """``topic`` with its length before it; ``extra`` are encoded properties, nothing at all in 3.1.1."""
    flags = Kind.PUBLISH << 4 | qos << 1 | retain
    number = _U16.pack(packet) if qos else b""
    size = len(topic) + len(number) + len(extra) + len(payload)
    return b"".join((bytes((flags,)), length(size), topic, number, extra, payload))


def acknowledge(kind: Kind, packet: int) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP, with success."""
    return bytes((kind << 4 | 0x02 * (kind is Kind.PUBREL), 2)) + _U16.pack(packet)


def subscribe(packet: int, topic: str, qos: int, version: int, *, only_new: bool = False) -> bytes:
    """``only_new``: retained messages come with a new subscription alone, not with one that is renewed."""
    options = qos | (0x10 * only_new if version == V5 else 0)
    extra = b"\0" if version == V5 else b""
    return _packet(Kind.SUBSCRIBE, 2, _U16.pack(packet), extra, text(topic), bytes((options,)))


def unsubscribe(packet: int, topic: str, version: int) -> bytes:
    return _packet(Kind.UNSUBSCRIBE, 2, _U16.pack(packet), b"\0" if version == V5 else b"", text(topic))


def disconnect(version: int, session_expiry: int | None = None) -> bytes:
    """A goodbye: the will is not published. ``session_expiry`` changes how long the session is kept."""
    if version != V5 or session_expiry is None:
        return _packet(Kind.DISCONNECT, 0)
    return _packet(Kind.DISCONNECT, 0, b"\0", properties({Property.SESSION_EXPIRY: session_expiry}))


def split(buffer: bytearray) -> Iterator[Packet]:
    """The whole packets at the front of the buffer; they are taken out when the iterator is finished."""
    view = memoryview(bytes(buffer))
    at, end = 0, len(view)
    while end - at >= 2:
        size, body = 0, at + 1
        for shift in (0, 7, 14, 21, 28):
            if shift == 28:
                raise Malformed("a packet's length has more than four bytes")
            if body >= end:
                size = -1
                break
            digit = view[body]
            body += 1
            size |= (digit & 0x7F) << shift
            if not digit & 0x80:
                break
        if size < 0 or body + size > end:
            break
        yield Packet(view[at] >> 4, view[at] & 0x0F, view[body : body + size])
        at = body + size
    del buffer[:at]


class _Reader:
    """Reads one packet's body from front to end."""

    __slots__ = ("at", "body")

    def __init__(self, body: memoryview) -> None:
        self.body = body
        self.at = 0

    def take(self, count: int) -> memoryview:
        found = self.body[self.at : self.at + count]
        if len(found) != count:
            raise Malformed("a packet ends too early")
        self.at += count
        return found

    def byte(self) -> int:
        return self.take(1)[0]

    def short(self) -> int:
        return int(_U16.unpack(self.take(2))[0])

    def long(self) -> int:
        return int(_U32.unpack(self.take(4))[0])

    def number(self) -> int:
        found = 0
        for shift in (0, 7, 14, 21):
            digit = self.byte()
            found |= (digit & 0x7F) << shift
            if not digit & 0x80:
                return found
        raise Malformed("a number has more than four bytes")

    def text(self) -> str:
        try:
            return str(self.take(self.short()), "utf-8")
        except UnicodeDecodeError as error:
            raise Malformed("text is not UTF-8") from error

    def left(self) -> bool:
        return self.at < len(self.body)

    def rest(self) -> bytes:
        return bytes(self.body[self.at :])

    def properties(self) -> Properties:
        size = self.number()
        if not size:
            return _NO_PROPERTIES
        inner = _Reader(self.take(size))
        values: dict[int, int | str | bytes] = {}
        user: list[tuple[str, str]] = []
        while inner.left():
            name = inner.number()
            if name == Property.USER:
                user.append((inner.text(), inner.text()))
            else:
                values[name] = inner.value(name)
        return Properties(values, tuple(user))

    def value(self, name: int) -> int | str | bytes:
        match _TYPES.get(name):
            case 0:
                return self.byte()
            case 1:
                return self.short()
            case 2:
                return self.long()
            case 3:
                return self.number()
            case 4:
                return bytes(self.take(self.short()))
            case 5:
                return self.text()
        raise Malformed(f"there is no property 0x{name:02x}")


class Connack(NamedTuple):
    resumed: bool
    """The server kept our session."""
    reason: int
    values: Mapping[int, int | str | bytes]


def read_connack(body: memoryview, version: int) -> Connack:
    reader = _Reader(body)
    resumed, reason = bool(reader.byte() & 1), reader.byte()
    found = reader.properties() if version == V5 and reader.left() else _NO_PROPERTIES
    return Connack(resumed, reason, found.values)


def read_publish(flags: int, body: memoryview, version: int) -> Incoming:
    reader = _Reader(body)
    topic = reader.text()
    qos = flags >> 1 & 3
    if qos == 3:
        raise Malformed("there is no quality of service 3")
    packet = reader.short() if qos else 0
    user = reader.properties().user if version == V5 else ()
    return Incoming(topic, reader.rest(), qos, bool(flags & 1), bool(flags & 8), packet, user)


def read_answer(kind: int, body: memoryview, version: int) -> Answer:
    """PUBACK and its kind, SUBACK and UNSUBACK: which packet, how it went, and in whose words."""
    reader = _Reader(body)
    packet = reader.short()
    several = kind in (Kind.SUBACK, Kind.UNSUBACK)
    if version != V5:
        return Answer(packet, tuple(reader.rest()) if kind == Kind.SUBACK else (0,), "")
    if several:
        found = reader.properties()
        return Answer(packet, tuple(reader.rest()), str(found.values.get(Property.REASON, "")))
    reason = reader.byte() if reader.left() else 0
    found = reader.properties() if reader.left() else _NO_PROPERTIES
    return Answer(packet, (reason,), str(found.values.get(Property.REASON, "")))


def read_disconnect(body: memoryview) -> int:
    """Why the server ends the connection."""
    return body[0] if len(body) else 0
