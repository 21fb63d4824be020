"""The connection to NATS, and JetStream's requests on it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from nats import errors as theirs
from nats.aio.client import Client
from nats.aio.msg import Msg

from dragoman.adapters.nats.errors import Refused, ours
from dragoman.adapters.nats.names import Names
from dragoman.adapters.nats.options import Options
from dragoman.core.errors import BrokerUnavailable, Unsupported

log = logging.getLogger("dragoman.nats")

OLDEST = (2, 9)


class Link:
    """One connection, made anew by the driver when it is lost. Whoever must know of that is told."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.names = Names(options.prefix)
        self._seat = ""
        self._sitting = asyncio.Lock()
        self._api = "$JS.API" if options.domain is None else f"$JS.{options.domain}.API"
        self._client: Client | None = None
        self._broken: set[Callable[[], None]] = set()

    async def connect(self) -> None:
        if self._client is not None:
            return
        client = Client()
        try:
            with ours(server=", ".join(self.options.servers)):
                async with asyncio.timeout(self.options.timeout):
                    await client.connect(
                        error_cb=self._on_error, disconnected_cb=self._on_broken, **self.options.driver()
                    )
                # The first connection is made or it fails; later ones are tried until they are made.
                client.options["allow_reconnect"] = True
                version = client.connected_server_version
                if (version.major, version.minor) < OLDEST:
                    raise Unsupported(
                        f"NATS {version.major}.{version.minor} is too old.", next="Use version 2.9 or later."
                    )
                self._client = client
                await self.request("INFO")
        except BaseException:
            self._client = None
            await client.close()
            raise

    async def _on_error(self, error: Exception) -> None:
        log.info("The driver reports: %s", type(error).__name__)

    async def _on_broken(self) -> None:
        self._seat = ""
        for tell in list(self._broken):
            tell()

    def on_broken(self, tell: Callable[[], None]) -> None:
        """Call this when the connection is lost: what was on its way may not have come."""
        self._broken.add(tell)

    def off_broken(self, tell: Callable[[], None]) -> None:
        self._broken.discard(tell)

    @property
    def client(self) -> Client:
        if self._client is None:
            raise BrokerUnavailable("The broker is not connected.", next="Call connect() first.")
        return self._client

    @property
    def connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            await client.close()

    async def ask(self, subject: str, payload: bytes = b"", headers: dict[str, str] | None = None) -> Msg:
        """One request and its answer."""
        return await self.client.request(subject, payload, self.options.timeout, headers=headers)

    async def request(self, what: str, **body: Any) -> dict[str, Any]:
        """Ask JetStream. Raises ``Refused``, and the driver's errors."""
        answer = await self.ask(f"{self._api}.{what}", json.dumps(body).encode() if body else b"")
        return checked(answer.data)

    def subject(self, what: str) -> str:
        return f"{self._api}.{what}"

    async def seat(self) -> str:
        """Where others can see that this connection lives: a new one after it was lost."""
        async with self._sitting:
            if not self._seat:
                id = uuid4().hex
                await self.client.subscribe(self.names.seat(id), cb=self._answer)
                self._seat = id
            return self._seat

    async def _answer(self, message: Msg) -> None:
        """The driver listens again at a seat that was lost, but whoever sat there may not be back."""
        current = message.subject == self.names.seat(self._seat)
        await message.respond(b"here" if current else b"gone")

    async def is_there(self, seat: str) -> bool:
        """Whether somebody sits there: the server answers at once if nobody listens."""
        try:
            answer = await self.client.request(self.names.seat(seat), b"", min(1.0, self.options.timeout))
        except theirs.NoRespondersError:
            return False
        except theirs.Error:
            return True
        return answer.data == b"here"


def checked(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data)
    if "error" in found:
        raise Refused(found["error"])
    return found
