"""Making envelopes: requests, the responses to them, and requests that follow from requests.

The originator is written once, with the first request, and copied into everything that follows from it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from dragoman.core.errors import InvalidEnvelope
from dragoman.gateway.envelope.mapping import to_data
from dragoman.gateway.envelope.method import Method
from dragoman.gateway.envelope.model import Datum, Destination, Envelope, Originator, Sender, datum

Data = Sequence[Datum] | object
"""Datums, or a record that is turned into them; ``None`` is no data."""

STATUS = "status"
MESSAGE = "message"
OK = "OK"
COLLECTOR = "collectionId"
"""The datum with the collection id, in what is sent to the collection point."""
FAILURE = "failure"
"""The check of a status that says there is no answer. A record with a field of that name has none."""


def data_of(given: Data) -> list[Datum]:
    if given is None:
        return []
    if isinstance(given, list | tuple):
        return list(given)
    return to_data(given)


def request(
    resource: str,
    method: Method | str,
    entity: str | None = None,
    data: Data = None,
    *,
    client_id: str,
    request_id: str | None = None,
    source: str = "client",
    token: str = "",
    security: str = "2",
    ttl: int | None = None,
    version: str = "v1",
) -> Envelope:
    """A first request: client and originator are the same."""
    id = request_id or secrets.token_hex(16)
    return Envelope(
        destination=_destination(resource, method, entity, version),
        client=Sender(client_id=client_id, request_id=id, source_endpoint=source, authorization=token),
        originator=Originator(
            client_id=client_id,
            request_id=id,
            source_endpoint=source,
            original_token=token,
            security=security,
            message_ttl=ttl,
        ),
        data=data_of(data),
    )


def response(
    request: Envelope, data: Data, *, source: str, to: str | None = None, authorization: str = ""
) -> Envelope:
    """The answer to a request, from ``source``; to whoever sent it, or ``to`` a collection point."""
    asked = request.destination
    return Envelope(
        destination=_destination(
            to or request.client.source_endpoint, Method.RESPONSE, asked.entity, asked.version
        ),
        client=Sender(
            client_id=source,
            request_id=request.client.request_id,
            source_endpoint=source,
            authorization=authorization,
        ),
        originator=request.originator,
        data=data_of(data),
    )


def failure(request: Envelope, status: str, message: str, *, source: str, to: str | None = None) -> Envelope:
    """An answer that says why there is none."""
    data = [datum(STATUS, status, FAILURE), datum(MESSAGE, message)]
    return response(request, data, source=source, to=to)


class Problem(NamedTuple):
    status: str
    message: str


def failed(response: Envelope) -> Problem | None:
    """What the response says instead of an answer; ``None`` if it is one."""
    first = response.data[0] if response.data else None
    if first is None or (first.field, first.check) != (STATUS, FAILURE):
        return None
    return Problem(response.text(STATUS) or "", response.text(MESSAGE) or "")


def nested(
    request: Envelope,
    resource: str,
    method: Method | str,
    entity: str | None = None,
    data: Data = None,
    *,
    source: str,
    number: int = 1,
    authorization: str = "",
    version: str = "v1",
) -> Envelope:
    """A request that an orchestrator makes in order to answer another one."""
    return Envelope(
        destination=_destination(resource, method, entity, version),
        client=Sender(
            client_id=source,
            request_id=combined(request.client.client_id, request.client.request_id, str(number)),
            source_endpoint=source,
            authorization=authorization,
        ),
        originator=request.originator,
        data=data_of(data),
    )


def combined(*ids: str) -> str:
    """Several ids in one. Different ids never give the same: ``a-b`` with ``c`` is not ``a`` with ``b-c``."""
    return "-".join(each.replace("~", "~0").replace("-", "~1") for each in ids)


def parts(id: str) -> tuple[str, ...]:
    """The ids that were combined."""
    return tuple(each.replace("~1", "-").replace("~0", "~") for each in id.split("-"))


class _Process:
    """The collection id of this process. A forked process makes its own: with one id both could collect."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.id = secrets.token_hex(16)


_PROCESS = _Process()


def collection(
    of: Envelope,
    *,
    resource: str = "service.collection",
    token: str | None = None,
    done: bool = False,
    collector: str | None = None,
) -> Envelope:
    """What is sent to the collection point for the response to a request; ``done`` says it has arrived.

    ``collector`` is the collection id: asked again with the same id, the collection point gives the same
    response, until ``done`` was sent. If it is not given, it is an id that this process made for itself.
    If it is empty, no id is sent.
    """
    method = Method.DELETE if done else Method.SELECT
    collector = _PROCESS.id if collector is None else collector
    authorization = of.client.authorization if token is None else token
    return Envelope(
        destination=_destination(resource, method, of.destination.entity, of.destination.version),
        client=Sender(
            client_id=of.client.client_id,
            request_id=of.client.request_id,
            source_endpoint=of.client.source_endpoint,
            authorization=authorization,
        ),
        originator=of.originator,
        data=[datum(COLLECTOR, collector)] if collector else [],
    )


def _destination(resource: str, method: Method | str, entity: str | None, version: str) -> Destination:
    if not resource or Method.of(method) is Method.UNSUPPORTED:
        raise InvalidEnvelope(
            f"Nobody can be asked to {str(method)!r} by the resource {resource!r}.",
            code="gateway.envelope.destination",
            next="Name a resource, and select, update, insert, delete, process or response.",
        )
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    return Destination(
        resource=resource, method=str(method), entity=entity, timestamp=moment, version=version
    )
