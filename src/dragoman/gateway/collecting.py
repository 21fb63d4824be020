"""The client's side of collecting: fetch a response; confirm it in a call of its own.

The gateway forgets a response that is confirmed. A call that confirms and then returns could be cancelled in
between, and the response would be lost. So the caller confirms, when it has the response.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec

from dragoman.core.errors import ClientError
from dragoman.gateway.envelope.derivation import collection
from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.envelope.wire import from_json
from dragoman.gateway.limits import EnvelopeLimits

ANY_SIZE = EnvelopeLimits(bytes=2**31, datums=2**31, depth=2**31)


class CollectingClient(ABC):
    """A client of a gateway, by HTTP or SEP. What it sends and what it is answered is the same."""

    async def confirm(
        self,
        asked: Envelope,
        *,
        timeout: float = 30.0,
        resource: str = "service.collection",
        token: str | None = None,
        collector: str | None = None,
    ) -> None:
        """Let the gateway forget a response that ``collect`` gave with the same arguments.

        Call it when the response is handled or stored: after a crash before that, it is collected again.
        Repeat it if it fails. Raises as ``collect`` does.
        """
        done = collection(asked, resource=resource, token=token, collector=collector, done=True)
        check(204, *await self._send(done, timeout))

    @abstractmethod
    async def _send(self, wanted: Envelope, timeout: float) -> tuple[int, bytes]:
        """Take a collection to the gateway; status and body, which mean the same by HTTP and SEP."""


def response_in(status: int, body: bytes) -> Envelope | None:
    """What a collection is answered: the response, or ``None`` if there is none (yet).

    Raises ``ClientError`` if the gateway refuses the question.
    """
    if status == 204:
        return None
    check(200, status, body)
    return from_json(body, ANY_SIZE)


class _Error(msgspec.Struct):
    error: str
    message: str


def check(wanted: int, status: int, body: bytes) -> None:
    """Raises ``ClientError`` with the gateway's own code and words for any other status."""
    if status == wanted:
        return
    try:
        found = msgspec.json.decode(body, type=_Error)
    except msgspec.DecodeError:
        found = _Error("gateway.answer", f"The gateway answered with the status {status}.")
    raise ClientError(found.message, code=found.error, status=status)
