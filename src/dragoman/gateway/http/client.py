"""A client of the gateway by HTTP: drops off requests and collects their responses."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import httpx
import msgspec

from dragoman.core.errors import BrokerUnavailable
from dragoman.gateway.collecting import CollectingClient, check, response_in
from dragoman.gateway.drop_off import Receipt
from dragoman.gateway.envelope.derivation import collection
from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.envelope.wire import to_json

_JSON = {"content-type": "application/json"}
_SLACK = 30.0
"""Seconds that an answer may take in addition to what it waits for."""


class HttpClient(CollectingClient):
    """``web`` takes the place of a connection pool of its own.

    async with HttpClient("https://gateway.example") as gateway:
        await gateway.drop_off(asked)
        answer = await gateway.collect(asked, wait=20)
        await gateway.confirm(asked)
    """

    def __init__(self, url: str, *, web: httpx.AsyncClient | None = None) -> None:
        self._url = url.rstrip("/")
        self._own = web is None
        self._web = web or httpx.AsyncClient()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._own:
            await self._web.aclose()

    async def drop_off(self, asked: Envelope) -> Receipt:
        """Repeat it if it fails: the same request is forwarded once.

        Raises ``ClientError`` if the gateway does not accept it, ``BrokerUnavailable`` if it does not answer.
        """
        status, body = await self._post("/drop-off", to_json(asked), _SLACK)
        check(202, status, body)
        return msgspec.json.decode(body, type=Receipt)

    async def collect(
        self,
        asked: Envelope,
        *,
        wait: float = 0.0,
        resource: str = "service.collection",
        token: str | None = None,
        collector: str | None = None,
    ) -> Envelope | None:
        """The response to a request; ``None`` if there is none after ``wait`` seconds.

        Repeat it if it fails: until you ``confirm`` the response, the same collector gets it again. Raises as
        ``drop_off`` does.
        """
        wanted = collection(asked, resource=resource, token=token, collector=collector)
        return response_in(*await self._send(wanted, wait + _SLACK, wait))

    async def _send(self, wanted: Envelope, timeout: float, wait: float = 0.0) -> tuple[int, bytes]:
        return await self._post(f"/collection?wait={wait:g}", to_json(wanted), timeout)

    async def _post(self, path: str, body: bytes, timeout: float) -> tuple[int, bytes]:
        try:
            answer = await self._web.post(self._url + path, content=body, headers=_JSON, timeout=timeout)
        except httpx.TransportError as error:
            raise BrokerUnavailable(
                f"The gateway does not answer: {type(error).__name__}.", next="Send the same again."
            ) from error
        return answer.status_code, answer.content
