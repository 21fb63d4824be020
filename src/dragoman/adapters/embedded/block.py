"""A block: the messages of one append, as columns.

    header, 48 bytes    magic, checksum of the rest of the header, checksum of the body, length of the body,
                        offset of the first message, highest timestamp, number of messages, flags,
                        length of all keys, length of all headers
    body                timestamps, value bounds, [key bounds], [header bounds], [value nulls], [key nulls],
                        values, keys, headers

All numbers are little-endian, timestamps int64, bounds int32 and one more than there are messages. Columns in
brackets are there if their flag is. These are the columns of a ``LogSlice``, so that a reader joins blocks
instead of walking through messages. A block without messages seals its segment: the next one follows. A block
with the flag ``GAP`` has no body: its offsets were never given out, or a power failure took their messages.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple
from zlib import crc32

from dragoman.core.errors import EncodeError
from dragoman.core.log import pack_headers, unpack_headers
from dragoman.core.message import Message

MAGIC = b"DGB1"
HEADER = struct.Struct("<4sIIIqqIIII")
_CHECKED = struct.Struct("<IIqqIIII")

KEYS, HEADERS, VALUE_NULLS, KEY_NULLS, GAP = 1, 2, 4, 8, 16
MAX_GAP = (1 << 32) - 1
_NO_TIME = -(1 << 63)


@dataclass(frozen=True, slots=True)
class Draft:
    """A block that does not know its offset yet."""

    count: int
    newest: int
    flags: int
    keys: int
    headers: int
    body: bytes
    checksum: int

    def at(self, offset: int) -> bytes:
        checked = _CHECKED.pack(
            self.checksum,
            len(self.body),
            offset,
            self.newest,
            self.count,
            self.flags,
            self.keys,
            self.headers,
        )
        return b"".join((MAGIC, crc32(checked).to_bytes(4, "little"), checked, self.body))


SEAL = Draft(0, 0, 0, 0, 0, b"", 0)


def gap(count: int) -> Draft:
    return Draft(count, _NO_TIME, GAP, 0, 0, b"", 0)


def draft(messages: Sequence[Message], now: int) -> Draft:
    """Columns of some messages of one partition; ``now`` (ms) where the sender gave no timestamp."""
    _, values, keys, headers, _, _, stamps, _ = zip(*messages, strict=True)
    count = len(messages)
    times = array("q", (now if stamp is None else stamp for stamp in stamps))
    flags = 0
    columns = [_little(times)]
    nulls = []
    if None in values:
        flags |= VALUE_NULLS
        nulls.append(bytes(value is None for value in values))
        values = tuple(value or b"" for value in values)
    columns.append(_bounds(values))
    all_keys = all_headers = b""
    if keys.count(None) < count:
        flags |= KEYS
        if None in keys:
            flags |= KEY_NULLS
            nulls.append(bytes(key is None for key in keys))
            keys = tuple(key or b"" for key in keys)
        columns.append(_bounds(keys))
        all_keys = b"".join(keys)
    if any(headers):
        flags |= HEADERS
        packed = _packed(headers)
        columns.append(_bounds(packed))
        all_headers = b"".join(packed)
    body = b"".join((*columns, *nulls, *values, all_keys, all_headers))
    return Draft(count, max(times), flags, len(all_keys), len(all_headers), body, crc32(body))


def _packed(headers: Sequence[tuple[tuple[str, bytes], ...]]) -> list[bytes]:
    try:
        return [pack_headers(some) for some in headers]
    except struct.error as error:
        raise EncodeError("A header's name is longer than 65535 bytes.", next="Shorten it.") from error


def _bounds(parts: Sequence[bytes]) -> bytes:
    return _little(array("i", accumulate(map(len, parts), initial=0)))


def _little(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()


class Block:
    """A block found in a segment. ``body`` may be empty when only headers are walked through."""

    __slots__ = ("base", "body", "checksum", "count", "flags", "headers", "keys", "length", "newest")

    def __init__(self, data: memoryview, at: int) -> None:
        self.checksum: int
        self.length: int
        self.base: int
        self.newest: int
        self.count: int
        _, _, self.checksum, self.length, *rest = HEADER.unpack_from(data, at)
        self.base, self.newest, self.count, self.flags, self.keys, self.headers = rest
        self.body = data[at + HEADER.size : at + HEADER.size + self.length]

    @property
    def size(self) -> int:
        return HEADER.size + self.length

    @property
    def end(self) -> int:
        return self.base + self.count

    @property
    def whole(self) -> bool:
        """All of the body is there, as it was written."""
        return len(self.body) == self.length and crc32(self.body) == self.checksum

    @property
    def is_gap(self) -> bool:
        return bool(self.flags & GAP)

    def columns(self) -> Columns:
        """The columns, without a copy. A gap has none."""
        count, flags, body = self.count, self.flags, self.body
        wide = 4 * (count + 1)
        at = 8 * count
        times, values_at = body[:at], body[at : at + wide]
        at += wide
        keys_at = headers_at = value_nulls = key_nulls = None
        if flags & KEYS:
            keys_at = body[at : at + wide]
            at += wide
        if flags & HEADERS:
            headers_at = body[at : at + wide]
            at += wide
        if flags & VALUE_NULLS:
            value_nulls = body[at : at + count]
            at += count
        if flags & KEY_NULLS:
            key_nulls = body[at : at + count]
            at += count
        keys_from = self.length - self.keys - self.headers
        headers_from = self.length - self.headers
        return Columns(
            times,
            values_at,
            body[at:keys_from],
            value_nulls,
            keys_at,
            body[keys_from:headers_from],
            key_nulls,
            headers_at,
            body[headers_from:],
        )

    def messages(self, channel: str, partition: int) -> list[Message]:
        if self.is_gap:
            return []
        columns = self.columns()
        count = self.count
        values: Sequence[bytes | None] = _cut(columns.values, columns.value_bounds)
        keys: Sequence[bytes | None] = [None] * count
        headers: Sequence[tuple[tuple[str, bytes], ...]] = [()] * count
        if columns.key_bounds is not None:
            keys = _cut(columns.keys, columns.key_bounds)
        if columns.header_bounds is not None:
            headers = [unpack_headers(some) for some in _cut(columns.headers, columns.header_bounds)]
        if columns.value_nulls is not None:
            values = _blank(values, columns.value_nulls)
        if columns.key_nulls is not None:
            keys = _blank(keys, columns.key_nulls)
        offsets = range(self.base, self.base + count)
        return [
            Message(channel, value, key, header, partition, offset, time)
            for value, key, header, offset, time in zip(
                values, keys, headers, offsets, numbers("q", columns.times), strict=True
            )
        ]


class Columns(NamedTuple):
    times: memoryview
    value_bounds: memoryview
    values: memoryview
    value_nulls: memoryview | None
    key_bounds: memoryview | None
    keys: memoryview
    key_nulls: memoryview | None
    header_bounds: memoryview | None
    headers: memoryview


def block_at(data: memoryview, at: int) -> Block | None:
    """The block whose header starts here; ``None`` if there is no sound header."""
    end = at + HEADER.size
    if end > len(data) or data[at : at + 4] != MAGIC:
        return None
    if crc32(data[at + 8 : end]) != int.from_bytes(data[at + 4 : at + 8], "little"):
        return None
    return Block(data, at)


def numbers(kind: str, column: memoryview) -> array[int]:
    found = array(kind, bytes(column))
    if sys.byteorder == "big":
        found.byteswap()
    return found


def _cut(data: memoryview, bounds: memoryview) -> list[bytes]:
    whole = bytes(data)
    return [whole[start:end] for start, end in pairwise(numbers("i", bounds))]


def _blank(parts: Sequence[bytes | None], nulls: memoryview) -> Sequence[bytes | None]:
    return [None if null else part for part, null in zip(parts, nulls, strict=True)]
