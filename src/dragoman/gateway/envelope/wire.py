"""The envelope as JSON: read with limits, written in one way only.

What is written has no blanks, all fields, and a fixed order, so the same envelope is the same bytes
wherever it is written.
"""

from __future__ import annotations

import msgspec

from dragoman.core.errors import InvalidEnvelope
from dragoman.gateway.envelope.model import Datum, Destination, Envelope, Originator, Sender, walk
from dragoman.gateway.limits import LIMITS, EnvelopeLimits


class _Older(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As libraries up to 0.7.5 write it."""

    endpoint: Destination
    client: Sender
    originator: Originator
    data: list[Datum]


_decoder = msgspec.json.Decoder(Envelope)
_older = msgspec.json.Decoder(_Older)
_encoder = msgspec.json.Encoder()


def to_json(envelope: Envelope) -> bytes:
    try:
        return _encoder.encode(envelope)
    except RecursionError:
        raise _too_deep(LIMITS) from None
    except UnicodeEncodeError:
        raise InvalidEnvelope(
            "A text in the envelope is not Unicode.", code="gateway.envelope.text", next="Remove surrogates."
        ) from None


def from_json(text: bytes | str, limits: EnvelopeLimits = LIMITS) -> Envelope:
    """Raises ``InvalidEnvelope``, and nothing else, whatever the text."""
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > limits.bytes:
        raise InvalidEnvelope(
            f"The envelope has {size} bytes, {limits.bytes} are allowed.",
            code="gateway.envelope.too-large",
            next="Send less data at once.",
        )
    try:
        envelope = _decoded(text)
    except RecursionError:
        raise _too_deep(limits) from None
    check_data(envelope.data, limits)
    return envelope


def check_data(data: list[Datum], limits: EnvelopeLimits = LIMITS) -> None:
    """Raises ``InvalidEnvelope`` if there are too many datums, or too deep ones."""
    for count, (depth, _) in enumerate(walk(data), 1):
        if depth > limits.depth:
            raise _too_deep(limits)
        if count > limits.datums:
            raise InvalidEnvelope(
                f"The envelope has more than {limits.datums} datums.",
                code="gateway.envelope.too-many",
                next="Send less data at once.",
            )


def _decoded(text: bytes | str) -> Envelope:
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        if isinstance(error, msgspec.ValidationError) and str(error).endswith("unknown field `endpoint`"):
            return _decoded_older(text)
        raise _malformed(error) from None


def _decoded_older(text: bytes | str) -> Envelope:
    try:
        found = _older.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _malformed(error) from None
    return Envelope(
        destination=found.endpoint, client=found.client, originator=found.originator, data=found.data
    )


def _malformed(error: Exception) -> InvalidEnvelope:
    if isinstance(error, msgspec.ValidationError):
        return InvalidEnvelope(
            f"This is not an envelope: {error}.",
            code="gateway.envelope.shape",
            next="It has destination, client, originator and data.",
        )
    return InvalidEnvelope(
        "This is not JSON.", code="gateway.envelope.json", next="Send one JSON object in UTF-8."
    )


def _too_deep(limits: EnvelopeLimits) -> InvalidEnvelope:
    return InvalidEnvelope(
        f"Datums are nested deeper than {limits.depth}.",
        code="gateway.envelope.too-deep",
        next="Send flatter data.",
    )
