"""The gateway: store, broker, drop-off and collection point, brought together."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from dragoman.client.client import Client
from dragoman.client.options import ClientOptions
from dragoman.core.broker import Broker
from dragoman.core.ending import end
from dragoman.core.errors import DragomanError, NotNow
from dragoman.core.registry import Registry
from dragoman.gateway.audit import Audit
from dragoman.gateway.collection import Collection
from dragoman.gateway.drop_off import DropOff
from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.forwarding import Forwarder
from dragoman.gateway.intake import intake
from dragoman.gateway.options import GatewayOptions
from dragoman.gateway.security.credentials import Credentials
from dragoman.gateway.store.opening import open_store

log = logging.getLogger("dragoman.gateway")

_SWEEP = 10.0


class Gateway:
    """Runs between entering and leaving it. Whoever speaks with clients uses ``drop_off`` and ``collection``.

    ``broker`` and ``registry`` take the place of the URLs in the options, where they are open already.
    """

    def __init__(
        self,
        options: GatewayOptions,
        *,
        broker: Broker | None = None,
        registry: Registry | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.options = options
        self.store = open_store(options.store)
        self.audit = Audit(options.audit)
        self._clock = clock
        credentials = Credentials(self.store, options.jwt)
        self.collection = Collection(options, self.store, credentials, self.audit, clock)
        self.client = Client(
            broker or options.broker,
            registry or options.registry,
            [intake(self.collection, options.collection_point, options.group)],
            options=ClientOptions(name="gateway", drain_timeout=10.0),
        )
        self._forward = Forwarder(self.client, options.forward_timeout)
        self.drop_off = DropOff(options, self.store, credentials, self._forward, self.audit, clock)
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.callback(self.audit.close)
            stack.push_async_callback(self.store.close)
            await self.store.open()
            await stack.enter_async_context(self.client)
            stack.push_async_callback(self.drop_off.close)
            await self.client.producer(self.options.collection_point, Envelope)
            for resource in self.options.policy.resources:
                await self._forward.prepare(resource)
            sweeping = asyncio.create_task(self._sweep())
            stack.push_async_callback(end, sweeping)
            stack.push_async_callback(self.collection.waiting.close)
            self._closing = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._closing.aclose()

    async def ready(self) -> bool:
        """Whether store and broker answer."""
        try:
            await self.store.key("")
            await self.client.broker.describe(self.options.collection_point)
        except DragomanError:
            return False
        return True

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP)
            try:
                self.audit.counts["expired", ""] += await self.store.sweep(self._clock())
            except NotNow:
                log.info("The store is away; what has expired is swept later.")
            except Exception:
                log.exception("What has expired could not be swept; it is tried again.")
