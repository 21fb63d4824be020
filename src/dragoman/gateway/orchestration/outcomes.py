"""What came of requests: a request that is delivered again is answered as it was the first time."""

from __future__ import annotations

import hashlib
import logging
import time
from types import TracebackType
from typing import Self

from dragoman.core.errors import NotNow
from dragoman.core.message import Message, header
from dragoman.gateway.collecting import ANY_SIZE
from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.envelope.wire import from_json, to_json
from dragoman.gateway.headers import MESSAGE_ID
from dragoman.gateway.store.opening import open_store
from dragoman.gateway.store.port import Ticket

log = logging.getLogger("dragoman.gateway")


class Outcomes:
    """Keeps responses for ``seconds``, in a store of its own or that of the gateway.

    A broker delivers again what was not acknowledged, so an orchestrator that is killed after its work and
    before the acknowledgement would do it twice. With this it does so only if it is killed before the
    outcome is kept.
    """

    def __init__(self, store: str, *, seconds: float = 3600.0) -> None:
        self._store = open_store(store)
        self._seconds = seconds

    async def __aenter__(self) -> Self:
        await self._store.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._store.close()

    async def recall(self, resource: str, message: Message) -> Envelope | None:
        """The response that was given before; ``None`` if the work is to be done."""
        key = _key(resource, message)
        if key is None:
            return None
        now = time.time()
        claim = await self._store.claim(Ticket(key, "", now, now + self._seconds), stale=now + 1)
        return from_json(claim.outcome, ANY_SIZE) if claim.outcome else None

    async def keep(self, resource: str, message: Message, response: Envelope) -> None:
        key = _key(resource, message)
        if key is None:
            return
        try:
            await self._store.settle(key, to_json(response).decode())
        except NotNow:
            # The work is done, so it is answered: to fail now would be to do it again for sure.
            log.warning("An outcome could not be kept; a request delivered again is handled again.")


def _key(resource: str, message: Message) -> str | None:
    """A request without an id is not known again."""
    id = header(message.headers, MESSAGE_ID)
    return None if id is None else hashlib.sha256(b"outcome " + resource.encode() + b" " + id).hexdigest()
