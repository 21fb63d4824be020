"""The client's side of collecting: fetch a response; confirm it in a call of its own.

The gateway forgets a response that is confirmed. A call that confirms and then returns could be cancelled in
between, and the response would be lost. So the caller confirms, when it has the response.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from dragoman.core.errors import ClientError
from dragoman.gateway.envelope.derivation import collection
from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.envelope.wire import from_json, to_json
from dragoman.gateway.limits import EnvelopeLimits

ANY_SIZE = EnvelopeLimits(bytes=2**31, datums=2**31, depth=2**31)

Send = Callable[[bytes], Awaitable[tuple[int, bytes]]]
"""Takes a collection as JSON to the gateway. Gives status and body, which mean the same by HTTP and SEP."""


async def collected(
    asked: Envelope, send: Send, *, resource: str, token: str | None, collector: str | None
) -> Envelope | None:
    """The response to a request, or ``None`` if there is none (yet).

    The gateway keeps it until ``confirmed``, and gives it to the same ``collector`` again.
    Raises ``ClientError`` if the gateway refuses the question.
    """
    wanted = collection(asked, resource=resource, token=token, collector=collector)
    status, body = await send(to_json(wanted))
    if status == 204:
        return None
    check(status, 200, body)
    return from_json(body, ANY_SIZE)


async def confirmed(
    asked: Envelope, send: Send, *, resource: str, token: str | None, collector: str | None
) -> None:
    """Tell the gateway that ``collector`` has the response. Raises ``ClientError`` if it is refused."""
    done = collection(asked, resource=resource, token=token, collector=collector, done=True)
    status, body = await send(to_json(done))
    check(status, 204, body)


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
