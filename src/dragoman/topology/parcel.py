"""What a transport carries: frames of one or several objects, and where they come from."""

from __future__ import annotations

from typing import NamedTuple

from dragoman.core.errors import FrameError
from dragoman.core.message import Headers, header

ORIGIN = "dragoman-origin"
SEQUENCE = "dragoman-sequence"
SENT_AT = "dragoman-sent-at"
SCOPE = "dragoman-scope"
PARTS = "dragoman-parts"
"""The lengths of the frames in a message of several objects."""

_OURS = frozenset({ORIGIN, SEQUENCE, SENT_AT, SCOPE, PARTS})
MOST_PARTS = 1024
LARGEST = (1 << 64) - 1
"""Of a sequence number and of a moment: as much as a datagram has room for."""


class Parcel(NamedTuple):
    """``origin`` names the sender, ``sequence`` counts its parcels from 1, ``sent_at`` is its clock in ms.

    ``parts`` is empty for a single object: its payload is the frame that every client of ours can read.
    """

    payload: bytes
    origin: str
    sequence: int
    sent_at: int
    scope: str | None = None
    parts: tuple[int, ...] = ()
    metadata: Headers = ()

    @property
    def frames(self) -> list[bytes]:
        if not self.parts:
            return [self.payload]
        if sum(self.parts) != len(self.payload):
            raise FrameError("The lengths of the parts do not add up.", code="message.frame.parts")
        found, start = [], 0
        for length in self.parts:
            found.append(self.payload[start : start + length])
            start += length
        return found


def headers_of(parcel: Parcel) -> Headers:
    """All but the payload, as headers of a message."""
    return (
        (ORIGIN, parcel.origin.encode()),
        (SEQUENCE, b"%d" % parcel.sequence),
        (SENT_AT, b"%d" % parcel.sent_at),
        *extras_of(parcel),
    )


def extras_of(parcel: Parcel) -> Headers:
    """What most parcels do not have."""
    if parcel.scope is None and not parcel.parts:
        return parcel.metadata
    pairs: list[tuple[str, bytes]] = []
    if parcel.scope is not None:
        pairs.append((SCOPE, parcel.scope.encode()))
    if parcel.parts:
        pairs.append((PARTS, ",".join(map(str, parcel.parts)).encode()))
    return (*pairs, *parcel.metadata)


def parcel_of(payload: bytes, headers: Headers) -> Parcel:
    """Raises ``FrameError`` for headers that no sender of ours writes."""
    try:
        scope, parts = header(headers, SCOPE), header(headers, PARTS)
        lengths = () if parts is None else tuple(int(each) for each in parts.split(b","))
        if len(lengths) > MOST_PARTS or any(length < 0 for length in lengths):
            raise ValueError("lengths of parts")
        sequence, sent_at = int(header(headers, SEQUENCE) or b"0"), int(header(headers, SENT_AT) or b"0")
        if not (0 <= sequence <= LARGEST and 0 <= sent_at <= LARGEST):
            raise ValueError("numbers of a sender")
        return Parcel(
            payload,
            (header(headers, ORIGIN) or b"").decode(),
            sequence,
            sent_at,
            None if scope is None else scope.decode(),
            lengths,
            tuple(pair for pair in headers if pair[0] not in _OURS),
        )
    except ValueError as error:
        raise FrameError("The headers are not those of a publisher.", code="message.frame.headers") from error
