"""What must hold for every envelope from outside, before anybody is asked who sent it."""

from __future__ import annotations

from datetime import UTC, datetime

from dragoman.core.errors import InvalidEnvelope
from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.limits import EnvelopeLimits


def check_names(envelope: Envelope, limits: EnvelopeLimits) -> None:
    """Ids can be printed, are not empty, and not too long. Client and originator are one."""
    _check_texts(envelope, limits)
    originator, client = envelope.originator, envelope.client
    if (originator.client_id, originator.request_id) != (client.client_id, client.request_id):
        raise InvalidEnvelope(
            "The originator has other ids than the client.",
            code="gateway.envelope.originator",
            next="From outside both are the one who asks.",
        )


def _check_texts(envelope: Envelope, limits: EnvelopeLimits) -> None:
    destination, client, originator = envelope.destination, envelope.client, envelope.originator
    needed = (
        ("destination.resource", destination.resource),
        ("destination.version", destination.version),
        ("client.clientId", client.client_id),
        ("client.requestId", client.request_id),
        ("client.sourceEndpoint", client.source_endpoint),
        ("originator.sourceEndpoint", originator.source_endpoint),
        ("destination.entity", destination.entity or "-"),
    )
    for place, text in needed:
        if not text or len(text) > limits.name or not text.isprintable():
            raise InvalidEnvelope(
                f"{place} needs 1 to {limits.name} characters that can be printed.",
                code="gateway.envelope.name",
                field=place,
            )
    for place, token in (
        ("client.authorization", client.authorization),
        ("originator.originalToken", originator.original_token),
    ):
        if len(token) > limits.token:
            raise InvalidEnvelope(f"{place} is too long.", code="gateway.envelope.name", field=place)


def issued_at(envelope: Envelope) -> float | None:
    """The timestamp in seconds since the epoch. Without a zone it is UTC."""
    text = envelope.destination.timestamp
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        return (found.replace(tzinfo=UTC) if found.tzinfo is None else found).timestamp()
    except (ValueError, OverflowError):
        raise InvalidEnvelope(
            "destination.timestamp is not a time.",
            code="gateway.envelope.timestamp",
            next="Write it as in ISO 8601: 2026-05-04T13:30:00Z",
        ) from None
