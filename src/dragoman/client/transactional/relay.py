"""The relay: publishes what stands in the outbox, in order, and then crosses it out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from dragoman.client.burial import code_of
from dragoman.client.pausing import Pauses
from dragoman.client.transactional.leasing import Lease
from dragoman.core.broker import Broker
from dragoman.core.database import Database, Row
from dragoman.core.errors import BrokerUnavailable, DragomanError
from dragoman.core.log import unpack_headers
from dragoman.core.message import Message

log = logging.getLogger("dragoman.client")

BATCH = 200
BUSY_REST = 0.02
IDLE_REST = 0.5
LEASE = 3.0
STUCK_REST = 5.0
"""Seconds until a channel is tried again that does not take its messages."""

_PAGE = """SELECT id, channel, message_key, payload, headers FROM dragoman_outbox
    WHERE id > ? ORDER BY id LIMIT ?"""


class Relay:
    """One of all relays on a database works, the others wait for it to fall silent.

    A crash between publishing and crossing out publishes again, under the same message id: an idempotent
    receiver does not mind. A channel that refuses its messages does not hold up the others.
    """

    def __init__(self, database: Database, broker: Broker) -> None:
        self._database = database
        self._broker = broker
        # The database is not in memory, so its time is the real one, whatever clock the client runs by.
        self._pauses = Pauses()
        self._lease = Lease(database, "outbox", LEASE)
        self._stuck: dict[str, float] = {}
        self._busy_until = 0.0
        self._task: asyncio.Task[None] | None = None
        # A thread of its own: those of endpoints may all be taken.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dragoman-relay")

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="dragoman relay")

    def tell(self) -> None:
        """Something is being written: look often for a while."""
        self._busy_until = time.monotonic() + 1.0

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            sent = 0
            try:
                rows = await loop.run_in_executor(self._thread, self._next)
                if rows:
                    sent = await self._publish(rows)
            except Exception as error:
                log.warning(
                    "The outbox could not be relayed, it is tried again.",
                    exc_info=error,
                    extra={"error_code": code_of(error)},
                )
            busy = time.monotonic() < self._busy_until
            if not sent and not await self._pauses(BUSY_REST if busy else IDLE_REST):
                return

    def _next(self) -> Sequence[Row]:
        """The oldest messages, if it is for us to send them."""
        if not self._lease.take():
            return ()
        now = time.monotonic()
        self._stuck = {channel: until for channel, until in self._stuck.items() if until > now}
        after = 0
        with self._database.transaction(write=False) as tx:
            while page := tx.execute(_PAGE, (after, BATCH)):
                if fresh := [row for row in page if row[1] not in self._stuck]:
                    return fresh
                after = page[-1][0]
        return ()

    async def _publish(self, rows: Sequence[Row]) -> int:
        messages = [_message(row) for row in rows]
        try:
            await self._broker.publish(messages)
            done = [row[0] for row in rows]
        except BrokerUnavailable:
            raise
        except DragomanError:
            done = [row[0] for row, message in zip(rows, messages, strict=True) if await self._alone(message)]
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._cross_out, done)
        return len(done)

    async def _alone(self, message: Message) -> bool:
        """One of several was refused: find out which, and leave its channel alone for a while."""
        if message.channel in self._stuck:
            return False
        try:
            await self._broker.publish([message])
            return True
        except BrokerUnavailable:
            raise
        except DragomanError as error:
            log.error(
                "A channel does not take what stands in the outbox.",
                extra={"channel": message.channel, "error_code": code_of(error)},
            )
            self._stuck[message.channel] = time.monotonic() + STUCK_REST
            return False

    def _cross_out(self, ids: Sequence[int]) -> None:
        if ids:
            with self._database.transaction() as tx:
                for id in ids:
                    tx.execute("DELETE FROM dragoman_outbox WHERE id = ?", (id,))

    async def stop(self) -> None:
        """What still stands in the outbox goes out the next time."""
        self._pauses.end()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
            with contextlib.suppress(Exception):
                await asyncio.get_running_loop().run_in_executor(self._thread, self._lease.give_up)
        self._thread.shutdown(wait=True)


def _message(row: Row) -> Message:
    _, channel, key, payload, headers = row
    return Message(
        channel,
        None if payload is None else bytes(payload),
        None if key is None else bytes(key),
        unpack_headers(bytes(headers)),
    )
