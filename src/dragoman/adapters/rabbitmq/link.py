"""A connection that is opened on demand, and anew after a loss. It never replays anything by itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiormq.exceptions import InvalidFrameError

from dragoman.adapters.rabbitmq import lenient
from dragoman.adapters.rabbitmq.errors import translate, translated
from dragoman.adapters.rabbitmq.options import Options
from dragoman.adapters.rabbitmq.pipe import Connection, Pipe
from dragoman.core.backoff import Backoff
from dragoman.core.errors import AccessRefused, BrokerUnavailable

log = logging.getLogger("dragoman.rabbitmq")
lenient.install()

REST = Backoff(0.1, 2.0)
CLOSE_TIMEOUT = 5.0


class Link:
    def __init__(self, options: Options) -> None:
        self.options = options
        self._connection: Connection | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self._turns: dict[str, asyncio.Lock] = {}

    def turn(self, name: str) -> asyncio.Lock:
        """Tasks that share this connection take turns at what the server gives to connections."""
        return self._turns.setdefault(name, asyncio.Lock())

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._connection.is_opened

    async def open(self, patience: float = 0.0) -> Connection:
        """The connection; one that was lost is made again, for at most ``patience`` seconds."""
        deadline = time.monotonic() + patience
        waits = REST.waits_s()
        async with self._opening:
            while True:
                if self._closed:
                    raise BrokerUnavailable("This broker is closed.", next="Connect a new one.")
                if self._connection is not None and self._connection.is_opened:
                    return self._connection
                try:
                    self._connection = await self._connect()
                    return self._connection
                except BrokerUnavailable:
                    wait_s = next(waits)
                    if time.monotonic() + wait_s > deadline:
                        raise
                await asyncio.sleep(wait_s)

    async def _connect(self) -> Connection:
        options = self.options
        where = {"host": options.host, "port": str(options.port)}
        connection: Connection | None = None
        with translated(**where):
            try:
                connection = Connection(options.amqp, context=options.context())
                await asyncio.wait_for(connection.connect(), options.timeout)
            except InvalidFrameError as error:
                if "Connection.Close " in str(error):
                    # The server's refusal where the driver expects nothing but a welcome.
                    raise AccessRefused(
                        "RabbitMQ does not let us in.",
                        next="Check that the vhost exists and is ours.",
                        **where,
                    ) from error
                raise
            except RuntimeError as error:
                # The driver's way to say that the connection ended while it was being made.
                raise translate(error, **where) from error
        return connection

    async def pipe(self, *, confirms: bool = False, patience: float = 0.0) -> Pipe:
        """A new AMQP channel."""
        connection = await self.open(patience)
        # Never the number of a channel that the server may still be closing.
        number = max(connection.channels, default=0) + 1
        pipe = Pipe(connection, number, confirms)
        connection.channels[number] = pipe
        with translated():
            await asyncio.wait_for(pipe.open(), self.options.timeout)
        return pipe

    @asynccontextmanager
    async def borrowed(self, *, confirms: bool = False) -> AsyncIterator[Pipe]:
        """An AMQP channel for a few questions; the driver's errors inside become ours."""
        pipe = await self.pipe(confirms=confirms)
        try:
            with translated():
                async with asyncio.timeout(self.options.timeout):
                    yield pipe
        finally:
            await discard(pipe)

    async def close(self) -> None:
        self._closed = True
        await self.drop()

    async def drop(self) -> None:
        """End the connection, and with it all it holds. The next one who needs it opens it again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(connection.close(), CLOSE_TIMEOUT)


async def discard(pipe: Pipe) -> None:
    with contextlib.suppress(Exception):
        await asyncio.wait_for(pipe.close(), CLOSE_TIMEOUT)
