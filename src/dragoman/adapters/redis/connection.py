"""The connections to one server, with our scripts and our errors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from redis import exceptions as theirs
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from dragoman.adapters.redis.errors import ours
from dragoman.adapters.redis.options import Options
from dragoman.adapters.redis.scripts import Script
from dragoman.core.errors import BrokerUnavailable, ConfigurationError, Unsupported

OLDEST = 7
CONNECTIONS = 10_000
"""There are as many as there are calls at once, which is about one per receiver."""


class Server:
    """Many tasks use it at once, each command on a connection of the pool.

    The driver does not repeat commands: after an error it is not known whether one was carried out, and who
    called decides what to do about it.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._client: Redis | None = None
        self._seat: Any = None
        self._sitting = asyncio.Lock()

    def client(self, **more: Any) -> Redis:
        settings = self._options.driver() | {"retry": Retry(NoBackoff(), 0), "max_connections": CONNECTIONS}
        return Redis(**(settings | more))

    async def connect(self) -> None:
        if self._client is not None:
            return
        client = self.client()
        try:
            with ours(server=f"{self._options.host}:{self._options.port}"):
                about = await client.info("server", "persistence", "cluster")
            self._check(about)
        except BaseException:
            await client.aclose()
            raise
        self._client = client
        self._seat = self.client(single_connection_client=True)

    def _check(self, about: dict[str, Any]) -> None:
        version = str(about.get("redis_version", "0"))
        if int(version.partition(".")[0]) < OLDEST:
            raise Unsupported(f"Redis {version} is too old.", next=f"Use version {OLDEST} or later.")
        if about.get("cluster_enabled"):
            raise Unsupported("This is a Redis Cluster.", next="Use a single server, or one with replicas.")
        if self._options.durability == "disk" and not about.get("aof_enabled"):
            raise ConfigurationError(
                "This Redis forgets messages when it ends: appendonly is off.",
                code="configuration.durability",
                next="Set 'appendonly yes' on the server, or accept the loss with ?durability=memory.",
                server=f"{self._options.host}:{self._options.port}",
            )

    async def close(self) -> None:
        for client in (self._client, self._seat):
            if client is not None:
                with ours():
                    await client.aclose()
        self._client = self._seat = None

    @property
    def redis(self) -> Any:
        """The driver's client; most of it has no types."""
        if self._client is None:
            raise BrokerUnavailable("The broker is not connected.", next="Call connect() first.")
        return self._client

    async def do(self, *command: Any) -> Any:
        with ours():
            return await self.redis.execute_command(*command)

    async def run(self, script: Script, keys: list[str], arguments: list[Any]) -> Any:
        with ours():
            try:
                return await self.redis.execute_command(*script.call(keys, arguments))
            except theirs.NoScriptError:
                return await self.redis.execute_command(*script.full(keys, arguments))

    async def run_safely(self, script: Script, keys: list[str], arguments: list[Any]) -> Any:
        """As ``run``, and wait until the replicas have it, too, where that was asked for."""
        replicas = self._options.replicas
        if not replicas:
            return await self.run(script, keys, arguments)
        with ours():
            async with self.redis.pipeline(transaction=False) as pipe:
                pipe.execute_command(*script.full(keys, arguments))
                pipe.execute_command("WAIT", replicas, int(self._options.timeout * 900))
                found, reached = await pipe.execute()
        if reached < replicas:
            raise BrokerUnavailable(
                f"The message is on {reached} replicas, {replicas} are wanted.",
                next="Are the replicas up? The message may be delivered nonetheless.",
            )
        return found

    async def many(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Some commands in one go."""
        with ours():
            async with self.redis.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                return list(await pipe.execute())

    async def seat(self) -> str:
        """The number of a connection that stays open as long as we live."""
        if self._seat is None:
            raise BrokerUnavailable("The broker is not connected.", next="Call connect() first.")
        async with self._sitting:
            with ours():
                return str(await self._seat.execute_command("CLIENT ID"))
