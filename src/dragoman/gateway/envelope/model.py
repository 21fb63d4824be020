"""The envelope: who shall do what, who asks, who asked first, and the data.

The classes are records like any other, so the same envelope travels as JSON outside and, under a contract
in the registry, as Avro inside. In JSON the names are those of SIMEX: ``clientId``, ``messageTTL``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from dragoman.gateway.envelope.method import Method
from dragoman.schema.records import named

NAMESPACE = "dragoman.simex"
_LARGEST_TTL = 2**53 - 1
"""The largest whole number that all programs read alike in JSON."""


@named(namespace=NAMESPACE, doc="A named value: text, or data that it is composed of.")
class Datum(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``check`` is for the two parties to agree upon, such as an operator in a query."""

    field: str
    check: str | None = None
    value: str | list[Datum]


@named(namespace=NAMESPACE, doc="Who handles the message, and how.")
class Destination(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    resource: str
    method: str
    entity: str | None = None
    timestamp: str | None = None
    """When it was issued, ISO 8601."""
    version: str = "v1"

    @property
    def intent(self) -> Method:
        return Method.of(self.method)


@named(name="Client", namespace=NAMESPACE, doc="Who sends the message.")
class Sender(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The section ``client``: of the message at hand, while the originator stays that of the first."""

    client_id: str
    request_id: str
    source_endpoint: str
    authorization: str


@named(namespace=NAMESPACE, doc="Who asked first. It is copied into all that follows from the request.")
class Originator(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    client_id: str
    request_id: str
    source_endpoint: str
    original_token: str
    security: str
    message_ttl: Annotated[int, Meta(ge=0, le=_LARGEST_TTL)] | None = msgspec.field(
        default=None, name="messageTTL"
    )


@named(name="Simex", namespace=NAMESPACE, doc="A message that says itself what it wants, and of whom.")
class Envelope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    destination: Destination
    client: Sender
    originator: Originator
    data: list[Datum]

    def first(self, field: str) -> Datum | None:
        """The first datum of this name at the top, in any case of letters."""
        wanted = field.lower()
        return next((each for each in self.data if each.field.lower() == wanted), None)

    def text(self, field: str) -> str | None:
        """The text of the first datum of this name; ``None`` if it is missing or composed."""
        found = self.first(field)
        return found.value if found is not None and isinstance(found.value, str) else None


def datum(field: str, value: str | list[Datum], check: str | None = None) -> Datum:
    return Datum(field=field, check=check, value=value)


def replaced(data: list[Datum], new: Datum) -> list[Datum]:
    """The data with this datum instead of all of its name."""
    return [*(each for each in data if each.field.lower() != new.field.lower()), new]


def walk(data: list[Datum]) -> Iterator[tuple[int, Datum]]:
    """All datums with their depth, from 1. Without recursion, so the depth does not matter."""
    waiting = [(1, each) for each in reversed(data)]
    while waiting:
        depth, each = waiting.pop()
        yield depth, each
        if isinstance(each.value, list):
            waiting.extend((depth + 1, inner) for inner in reversed(each.value))
