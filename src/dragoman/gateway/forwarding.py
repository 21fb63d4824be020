"""From the drop-off point to the orchestrators' channels, under the contract of each."""

from __future__ import annotations

import logging
from typing import Protocol

from dragoman.client.client import Client
from dragoman.client.headers import EXPIRES_AT
from dragoman.client.producer import Producer
from dragoman.core.errors import BrokerError, NotNow
from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.headers import HOPS, MESSAGE_ID
from dragoman.gateway.patience import Patience

log = logging.getLogger("dragoman.gateway")


class Forward(Protocol):
    async def __call__(self, envelope: Envelope, id: str, hops: int, expires: float) -> None:
        """Returns once the broker has it. Raises ``NotNow``, and then it was not accepted."""


class Forwarder:
    def __init__(self, client: Client, timeout: float) -> None:
        self._client = client
        self._patience = Patience(timeout)
        self._producers: dict[str, Producer[Envelope]] = {}

    async def prepare(self, resource: str) -> None:
        """Make the channel and register the contract, before the first request."""
        self._producers[resource] = await self._client.producer(resource, Envelope)

    async def __call__(self, envelope: Envelope, id: str, hops: int, expires: float) -> None:
        headers = (
            (MESSAGE_ID, id.encode()),
            (HOPS, str(hops).encode()),
            (EXPIRES_AT, str(int(expires * 1000)).encode()),
        )
        resource = envelope.destination.resource
        try:
            await self._patience.limit(
                self._producers[resource].publish(
                    envelope, key=envelope.originator.client_id, headers=headers
                )
            )
        except (BrokerError, TimeoutError) as error:
            log.warning(
                "A request cannot be forwarded.",
                extra={"resource": resource, "reason": getattr(error, "code", "timeout")},
            )
            refused = NotNow(
                "Requests cannot be forwarded just now.", code="gateway.broker-away", next="Send it again."
            )
            refused.retry_after = 2.0
            raise refused from error
