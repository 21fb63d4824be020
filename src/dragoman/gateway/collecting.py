"""The client's side of collecting: fetch the response, and confirm it once it has come."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

import msgspec

from dragoman.core.errors import BrokerUnavailable, ClientError, ReplyTimeout
from dragoman.gateway.envelope.derivation import collection
from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.envelope.wire import from_json, to_json
from dragoman.gateway.limits import EnvelopeLimits

ANY_SIZE = EnvelopeLimits(bytes=2**31, datums=2**31, depth=2**31)

Send = Callable[[bytes], Awaitable[tuple[int, bytes]]]
"""Takes a collection as JSON to the gateway. Gives status and body, which mean the same by HTTP and SEP."""

_UNREACHED = (ReplyTimeout, BrokerUnavailable, ClientError)


async def collected(
    asked: Envelope, fetch: Send, confirm: Send, *, resource: str, token: str | None, collector: str | None
) -> Envelope | None:
    """The response to a request, or ``None`` if there is none (yet).

    It is confirmed before it is returned. If the confirmation does not reach the gateway, the response stays
    there until its time is over, and asking again with the same ``collector`` gives it again.
    Raises ``ClientError`` if the gateway refuses the question.
    """
    wanted = collection(asked, resource=resource, token=token, collector=collector)
    status, body = await fetch(to_json(wanted))
    if status == 204:
        return None
    check(status, 200, body)
    found = from_json(body, ANY_SIZE)
    done = collection(asked, resource=resource, token=token, collector=collector, done=True)
    with contextlib.suppress(*_UNREACHED):
        await confirm(to_json(done))
    return found


class _Error(msgspec.Struct):
    error: str
    message: str


def check(status: int, wanted: int, body: bytes) -> None:
    """Raises ``ClientError`` with the gateway's own code and words for any other status."""
    if status == wanted:
        return
    try:
        found = msgspec.json.decode(body, type=_Error)
    except msgspec.DecodeError:
        found = _Error("gateway.answer", f"The gateway answered with the status {status}.")
    raise ClientError(found.message, code=found.error, status=status)
