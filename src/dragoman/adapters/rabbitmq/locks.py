"""Locks: exclusive queues. The server gives them to one connection, and takes them back when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.adapters.rabbitmq.link import Link
from dragoman.core.errors import BrokerUnavailable, GroupTaken

REST = 0.02


async def take(link: Link, name: str) -> bool:
    """Whether this connection has the lock now. A connection that has it already may have it again."""
    try:
        async with link.borrowed() as pipe:
            await pipe.queue_declare(name, exclusive=True)
        return True
    except GroupTaken:
        return False


async def give(link: Link, name: str) -> None:
    async with link.borrowed() as pipe:
        await pipe.queue_delete(name)


@asynccontextmanager
async def holding(link: Link, name: str) -> AsyncIterator[None]:
    """Wait for the lock, for as long as anybody needs who makes a change."""
    # The server tells connections apart, not tasks: those of one connection queue up here first.
    async with link.turn(name):
        deadline = time.monotonic() + link.options.timeout
        while not await take(link, name):
            if time.monotonic() > deadline:
                raise BrokerUnavailable(
                    "Somebody else is changing this for too long.", next="Try again.", lock=name
                )
            await asyncio.sleep(REST)
        try:
            yield
        finally:
            # Without a connection there is nothing to give back. Another one may have it by now.
            with contextlib.suppress(BrokerUnavailable, GroupTaken):
                await give(link, name)
