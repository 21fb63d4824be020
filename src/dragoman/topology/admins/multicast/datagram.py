"""The datagrams of UDP multicast: a head of 44 bytes, big-endian, and a piece of a message.

    magic 2, version 1, kind 1, topic 8, sender 8, sequence 8, sent at 8 (ms), total 4, index 2, count 2

``topic`` is a hash of the topic's path, for several topics share a group. A message is an envelope of headers
and payload, cut into ``count`` pieces of equal size, the last one shorter. A beat is a head alone, whose
``sequence`` is the last one used. Small messages follow each other in one datagram, each with its head. A
seal stands before them: its piece is an Ed25519 signature over its own head and all that follows. ``sent at``
in a seal is a stamp of the sender's program, which never goes back; it is not the time of day. Receivers that
do not know seals pass over it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import NamedTuple

from dragoman.core.errors import EncodeError

MAGIC = b"dM"
VERSION = 1
DATA = 1
BEAT = 2
SEAL = 3
SIGNATURE = 64
HEAD = struct.Struct(">2sBBQQQQIHH")
LARGEST_DATAGRAM = 65_507
MOST_PIECES = 0xFFFF


class Datagram(NamedTuple):
    kind: int
    topic: int
    sender: int
    sequence: int
    sent_at: int
    total: int
    number: int
    """Which piece it is, from 0."""
    pieces: int
    piece: bytes


def topic_hash(path: str) -> int:
    return int.from_bytes(hashlib.blake2b(path.encode(), digest_size=8).digest(), "big")


def single(topic: int, sender: int, sequence: int, sent_at: int, message: bytes) -> bytes:
    """A message that needs no cutting."""
    return HEAD.pack(MAGIC, VERSION, DATA, topic, sender, sequence, sent_at, len(message), 0, 1) + message


def pieces(
    topic: int, sender: int, sequence: int, sent_at: int, message: bytes, size: int
) -> Iterator[bytes]:
    """The datagrams of one message, none larger than ``size``."""
    room = size - HEAD.size
    total = len(message)
    if total <= room:
        yield single(topic, sender, sequence, sent_at, message)
        return
    count = -(-total // room)
    if count > MOST_PIECES:
        raise EncodeError(
            f"A message of {total} bytes needs {count} datagrams.",
            code="message.encode.too-large",
            next=f"At most {MOST_PIECES}: raise the option 'size', or use a broker.",
        )
    for index in range(count):
        head = HEAD.pack(MAGIC, VERSION, DATA, topic, sender, sequence, sent_at, total, index, count)
        yield head + message[index * room : (index + 1) * room]


def beat(topic: int, sender: int, sequence: int, sent_at: int) -> bytes:
    return HEAD.pack(MAGIC, VERSION, BEAT, topic, sender, sequence, sent_at, 0, 0, 1)


def head_of(kind: int, topic: int, sender: int, sent_at: int, total: int) -> bytes:
    """Of what has no place in the sequence."""
    return HEAD.pack(MAGIC, VERSION, kind, topic, sender, 0, sent_at, total, 0, 1)


def parse(data: bytes) -> list[Datagram]:
    """What is in a datagram, up to what is not ours or cannot be."""
    found, place, size = [], 0, HEAD.size
    while place + size <= len(data):
        magic, version, kind, topic, sender, sequence, sent_at, total, index, count = HEAD.unpack_from(
            data, place
        )
        if magic != MAGIC or version != VERSION or index >= count:
            break
        start = place + size
        place = start + total if count == 1 else len(data)
        piece = data[start:place]
        found.append(Datagram(kind, topic, sender, sequence, sent_at, total, index, count, piece))
    return found
