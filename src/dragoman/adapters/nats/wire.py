"""Messages as NATS carries them: the payload as it is, key and headers in NATS headers, which are text."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping

from dragoman.core.errors import DecodeError
from dragoman.core.log import pack_headers, unpack_headers
from dragoman.core.message import Headers, Message

KEY = "Dragoman-Key"
HEADERS = "Dragoman-Headers"
TIMESTAMP = "Dragoman-Timestamp"
"""Where the sender chose one. Otherwise the server's counts."""
NULL = "Dragoman-Null"
"""The payload is missing, which is not the same as empty."""
DUE = "Dragoman-Due"
PARTITION = "Dragoman-Partition"
MESSAGE_ID = "Nats-Msg-Id"


def headers_of(message: Message) -> dict[str, str] | None:
    _, payload, key, headers, _, _, timestamp, _ = message
    found: dict[str, str] = {}
    if key is not None:
        found[KEY] = b64encode(key).decode()
    if headers:
        found[HEADERS] = b64encode(pack_headers(headers)).decode()
        if (id := message_id(headers)) is not None:
            found[MESSAGE_ID] = id
    if timestamp is not None:
        found[TIMESTAMP] = str(timestamp)
    if payload is None:
        found[NULL] = "1"
    return found or None


def message_id(headers: Headers) -> str | None:
    """What the server tells repetitions by. What we send again on purpose, such as a dead letter on its way
    back, has headers of ours and must not be taken for one."""
    found = None
    for name, value in headers:
        if name == "message-id":
            found = value
        elif name.startswith("dragoman-"):
            return None
    return None if found is None else b64encode(found).decode()


def message_of(
    channel: str, partition: int, sequence: int, stamp: int, payload: bytes, headers: Mapping[str, str] | None
) -> Message:
    """``stamp`` is the server's time in milliseconds."""
    if not headers:
        return Message(channel, payload, None, (), partition, sequence - 1, stamp)
    try:
        key, packed = headers.get(KEY), headers.get(HEADERS)
        return Message(
            channel,
            None if NULL in headers else payload,
            None if key is None else b64decode(key),
            () if packed is None else unpack_headers(b64decode(packed)),
            partition,
            sequence - 1,
            _timestamp(headers[TIMESTAMP]) if TIMESTAMP in headers else stamp,
        )
    except (ValueError, DecodeError):
        # Not one of ours: its payload may be of use nonetheless.
        return Message(channel, payload, None, (), partition, sequence - 1, stamp)


def _timestamp(text: str) -> int:
    found = int(text)
    if not -(2**63) <= found < 2**63:
        raise ValueError("more than a timestamp can be.")
    return found


def parse_headers(raw: bytes) -> dict[str, str]:
    """The text of headers, as the server keeps it with a message."""
    found = {}
    for line in raw.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            found[name.decode(errors="replace")] = value.strip().decode(errors="replace")
    return found
