"""Frames into datagrams, as many as fit into each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dragoman.gateway.sep.datagram import MAX_DATAGRAM, TAG
from dragoman.gateway.sep.frames import Frame, pack_frame

PAD = b"\0"
"""The inside of a datagram that says nothing but that its sender has the keys."""


def packed(frames: Iterable[Frame], room: int) -> Iterator[bytes]:
    """The insides of datagrams that have ``room`` bytes for it."""
    waiting = b""
    for frame in frames:
        added = pack_frame(frame)
        if waiting and len(waiting) + len(added) > room:
            yield waiting
            waiting = b""
        waiting += added
    if waiting:
        yield waiting


def room_beside(head: int) -> int:
    return MAX_DATAGRAM - head - TAG


def padded(inside: bytes, head: int) -> bytes:
    """As large as a datagram can be."""
    return inside.ljust(room_beside(head), b"\0")
