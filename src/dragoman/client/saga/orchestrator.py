"""The orchestrator: an ordinary controller that sends commands, takes answers, and remembers in SQL."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any, Generic, TypeVar, cast

from dragoman.client.burial import code_of
from dragoman.client.client import Client
from dragoman.client.controller import controller
from dragoman.client.endpoint import endpoint
from dragoman.client.headers import (
    CORRELATION_ID,
    ERROR_CODE,
    ERROR_MESSAGE,
    MESSAGE_ID,
    RAISED,
    REPLY_TO,
    SENDS,
    text_of,
)
from dragoman.client.markers import To
from dragoman.client.saga import state
from dragoman.client.saga.state import Progress, State
from dragoman.client.saga.steps import Saga, command_class
from dragoman.client.saga.transitions import Verdict, after
from dragoman.client.transactional.leasing import Lease
from dragoman.client.transactional.outbox import Outbox
from dragoman.core.database import Database, Transaction, TransactionConflict, UniqueViolation
from dragoman.core.ending import end
from dragoman.core.errors import ClientClosed, ClientError, ConfigurationError, RegistryError
from dragoman.core.format import Codec, Format
from dragoman.core.loading import FORMATS, load
from dragoman.core.message import Message

D = TypeVar("D")

log = logging.getLogger("dragoman.saga")

POLL = 0.1
LEASE = 3.0
BATCH = 50
LONGEST_ID = 150


class Orchestrator(Generic[D]):
    """Runs sagas of one kind. Made by ``orchestrate``; given to a client as a controller.

        checkout = orchestrate(CHECKOUT)
        async with Client(controllers=[checkout], database="sqlite://orders.db"), checkout.watch():
            id = await checkout.start(Checkout(...))

    Several processes may run the same saga's orchestrator: answers are shared out, and one of them at a time
    watches what is overdue.
    """

    client: Client | None = None

    def __init__(self, saga: Saga[D], outboxes: dict[tuple[str, type], str]) -> None:
        self.saga = saga
        self._outboxes = outboxes
        self._codec = _codec(saga.data)
        self._indexes = {step.name: index for index, step in enumerate(saga.steps)}

    async def start(self, data: D, id: str | None = None) -> str:
        """Begin a saga; its id. With an id that is known already, nothing happens."""
        number = id or secrets.token_hex(8)
        # A unique violation tells that another process has begun it at the same moment.
        with contextlib.suppress(UniqueViolation):
            await asyncio.to_thread(self._transact, lambda tx: self.begin(tx, data, number))
        return number

    def begin(self, tx: Transaction, data: D, id: str) -> None:
        """The same, as part of a transaction of the application."""
        if not 0 < len(id) <= LONGEST_ID:
            raise ConfigurationError(
                f"The id of a saga cannot have {len(id)} characters.",
                code="saga.id",
                next=f"Use 1 to {LONGEST_ID}.",
            )
        if state.find(tx, id) is not None:
            return
        now = time.time()
        text = self._codec.encode(data).decode()
        saga = Progress(id, self.saga.name, State.RUNNING, 0, 0, 0, False, now, text, None, now, now, 0)
        state.insert(tx, saga)
        state.note(tx, id, "started")
        self._go_on(tx, saga, now)

    @property
    def _database(self) -> Database:
        if self.client is None:
            raise ClientClosed(
                f"The saga {self.saga.name!r} has no client.",
                code="client.not-running",
                next="Give its orchestrator to a client as a controller, and enter that first.",
            )
        return self.client.database

    async def progress(self, id: str) -> Progress:
        """Where a saga stands. Raises ``NotFound``."""
        return await asyncio.to_thread(self._transact, lambda tx: state.known(tx, id))

    async def ended(self, id: str, timeout: float = 60.0) -> Progress:
        """Wait until it is completed or rejected. Raises ``TimeoutError``."""
        async with asyncio.timeout(timeout):
            while True:
                found = await self.progress(id)
                if found.state in state.ENDED:
                    return found
                await asyncio.sleep(POLL / 2)

    def answered(self, reply: dict[str, Any] | None, message: Message, tx: Transaction) -> None:
        """A participant has answered. Answers to what is not asked any more are passed over."""
        id, step, direction, attempt = _number(text_of(message.header(CORRELATION_ID)))
        saga = state.find(tx, id)
        current = saga is not None and self._expected(saga) == (step, direction, attempt)
        if saga is None or not current:
            return
        verdict, reason = _verdict(message)
        state.note(tx, id, f"{direction} {step}: {verdict}" + (f", {reason}" if reason else ""))
        if verdict is Verdict.DONE and saga.state is State.RUNNING:
            saga = self._taken(saga, reply)
        self._move(tx, saga, verdict, reason)

    def _taken(self, saga: Progress, reply: dict[str, Any] | None) -> Progress:
        take = self.saga.steps[saga.step].take
        if take is None or reply is None:
            return saga
        data = take(self._codec.decode(saga.data.encode()), reply)
        return replace(saga, data=self._codec.encode(data).decode())

    def _move(self, tx: Transaction, saga: Progress, verdict: Verdict, reason: str) -> None:
        now = time.time()
        moved = after(self.saga, saga, verdict, reason, now)
        if moved.stuck:
            state.note(tx, saga.id, f"stuck: {reason}")
            log.error("A saga needs help.", extra={"saga": saga.name, "saga_id": saga.id})
        elif moved.state in state.ENDED:
            state.note(tx, saga.id, str(moved.state))
        self._go_on(tx, moved, now)

    def _go_on(self, tx: Transaction, saga: Progress, now: float) -> None:
        """Send the command if it is time, and save."""
        if saga.due is not None and saga.due <= now and not saga.waiting:
            saga = self._send(tx, saga, now)
        state.save(tx, saga)

    def _send(self, tx: Transaction, saga: Progress, now: float) -> Progress:
        step = self.saga.steps[saga.step]
        make = step.action if saga.state is State.RUNNING else step.compensation
        assert make is not None
        command = make(self._codec.decode(saga.data.encode()))
        number = "/".join((saga.id, *self._expected(saga)))
        outbox: Outbox[Any] = getattr(self, self._outboxes[step.channel, type(command)])
        outbox.publish(
            tx,
            command,
            key=saga.id,
            headers={
                CORRELATION_ID: number,
                MESSAGE_ID: number,
                REPLY_TO: self.saga.replies,
                SENDS: str(saga.sends),
            },
        )
        return replace(saga, sends=saga.sends + 1, waiting=True, due=now + step.timeout)

    def _expected(self, saga: Progress) -> tuple[str, str, str]:
        """The answer that is waited for: step, direction, attempt."""
        direction = "do" if saga.state is State.RUNNING else "undo"
        return self.saga.steps[saga.step].name, direction, str(saga.attempt)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Send again what is not answered in time, while the block runs."""
        lease = Lease(self._database, f"saga.{self.saga.name}", LEASE)
        with ThreadPoolExecutor(1, thread_name_prefix="dragoman-saga") as thread:
            watching = asyncio.create_task(self._watch(thread, lease))
            try:
                yield
            finally:
                await end(watching)

    async def _watch(self, thread: ThreadPoolExecutor, lease: Lease) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    await loop.run_in_executor(thread, self._look_after, lease)
                except Exception as error:
                    log.warning(
                        "Overdue sagas could not be looked after, it is tried again.",
                        exc_info=error,
                        extra={"saga": self.saga.name, "error_code": code_of(error)},
                    )
                await asyncio.sleep(POLL)
        finally:
            with contextlib.suppress(Exception):
                thread.submit(lease.give_up)

    def _look_after(self, lease: Lease) -> None:
        if not lease.take():
            return
        now = time.time()
        with self._database.transaction(write=False) as tx:
            found = state.overdue(tx, self.saga.name, now, BATCH)
        for id in found:
            self._look_after_one(id)

    def _look_after_one(self, id: str) -> None:
        """One whose command cannot be made waits for a person, and does not keep the others waiting."""
        try:
            self._transact(lambda tx: self._overdue(tx, id))
        except (RegistryError, ClientError):
            raise  # The database is away, or the client: no fault of this saga.
        except Exception as error:
            reason = f"{type(error).__name__} while its command was made"
            log.exception("A saga needs help.", extra={"saga": self.saga.name, "saga_id": id})
            self._transact(lambda tx: self._put_aside(tx, id, reason))

    def _put_aside(self, tx: Transaction, id: str, reason: str) -> None:
        state.note(tx, id, f"stuck: {reason}")
        state.save(tx, replace(state.known(tx, id), due=None, problem=reason))

    def _overdue(self, tx: Transaction, id: str) -> None:
        saga, now = state.find(tx, id), time.time()
        if saga is None or saga.due is None or saga.due > now:
            return
        if saga.waiting:
            step, direction, _ = self._expected(saga)
            state.note(tx, id, f"{direction} {step}: no answer")
            self._move(tx, saga, Verdict.UNKNOWN, f"{step} does not answer")
        else:
            self._go_on(tx, saga, now)

    def _transact(self, work: Callable[[Transaction], Any]) -> Any:
        """Again if another transaction was in the way."""
        while True:
            try:
                with self._database.transaction() as tx:
                    return work(tx)
            except TransactionConflict:
                time.sleep(0.01)


def orchestrate(saga: Saga[D]) -> Orchestrator[D]:
    """The controller that runs a saga: an endpoint for answers, and an outbox for each kind of command."""
    wanted = {
        (step.channel, command_class(make))
        for step in saga.steps
        for make in (step.action, step.compensation)
        if make is not None
    }
    outboxes = {pair: f"outbox_{index}" for index, pair in enumerate(sorted(wanted, key=str))}
    wishes = {name: Annotated[Outbox[cls], To(channel)] for (channel, cls), name in outboxes.items()}  # type: ignore[valid-type]

    @endpoint(saga.replies)
    def on_answer(
        self: Orchestrator[D], reply: dict[str, Any] | None, message: Message, tx: Transaction
    ) -> None:
        self.answered(reply, message, tx)

    name = f"{saga.name.title().replace('.', '').replace('-', '')}Orchestrator"
    members = {
        "__annotations__": {"client": Client, **wishes},
        "on_answer": on_answer,
        "__module__": __name__,
    }
    made = type(name, (Orchestrator,), members)
    controller(group=f"saga.{saga.name}")(made)
    return cast("Orchestrator[D]", made(saga, outboxes))


def _number(correlation: str) -> tuple[str, str, str, str]:
    """Saga, step, direction and attempt. An id may have slashes, the others have none."""
    parts = correlation.rsplit("/", 3)
    return (parts[0], parts[1], parts[2], parts[3]) if len(parts) == 4 else ("", "", "", "")


def _verdict(message: Message) -> tuple[Verdict, str]:
    raised = message.header(RAISED)
    if raised is not None:
        return Verdict.REFUSED, text_of(raised)
    if message.header(ERROR_CODE) is not None:
        return Verdict.UNKNOWN, text_of(message.header(ERROR_MESSAGE))
    return Verdict.DONE, ""


def _codec(cls: type) -> Codec:
    """Sagas' data is kept as JSON, which people can read."""
    format: Format = load(FORMATS, "JSON")()
    return format.codec(format.parse(format.schema_of(cls)), cls=cls)
