"""The connection to NATS, and JetStream's requests on it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import uuid4

from nats import errors as theirs
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from dragoman.adapters.nats.errors import Refused, ours
from dragoman.adapters.nats.names import Names
from dragoman.adapters.nats.options import Options
from dragoman.core.backoff import RECONNECT
from dragoman.core.ending import end, is_ending, outlive_program
from dragoman.core.errors import BrokerUnavailable, DragomanError, Unsupported

log = logging.getLogger("dragoman.nats")

OLDEST = (2, 9)
UNBORN = "0001-"
"""How the time begins at which a stream was made that is still being made."""
CLOSING = 2.0
"""Seconds that a connection which could not be used may take to close."""


class Driver(Client):
    """Its tasks read and write until it is closed. It begins them anew with each connection."""

    async def _process_connect_init(self) -> None:
        await super()._process_connect_init()
        tasks: list[Any] = [self._reading_task, self._ping_interval_task, self._flusher_task]
        for task in tasks:
            outlive_program(task)

    async def subscribe(self, *arguments: Any, **options: Any) -> Subscription:
        subscription = await super().subscribe(*arguments, **options)
        task: Any = subscription._wait_for_msgs_task
        if task is not None:
            outlive_program(task)
        return subscription


class Link:
    """One connection, made anew when it is lost. Whoever must know of that is told."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.names = Names(options.prefix)
        self._api = "$JS.API" if options.domain is None else f"$JS.{options.domain}.API"
        self._client: Client | None = None
        self._broken: set[Callable[[], None]] = set()
        self._denied: set[Callable[[str], None]] = set()
        self._asking: dict[asyncio.Task[Msg], str] = {}
        self._ended: dict[asyncio.Task[Msg], Exception] = {}
        self._whole: set[str] = set()
        self._seat = ""
        self._sitting = asyncio.Lock()
        self._reviving: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        if self._client is None:
            await self._open()

    async def _open(self) -> None:
        client = Driver()
        try:
            with ours(server=", ".join(self.options.servers)):
                callbacks: dict[str, Any] = {
                    "error_cb": self._on_error,
                    "disconnected_cb": self._on_broken,
                    "closed_cb": self._on_closed,
                }
                await _within(self.options.timeout, client.connect(**callbacks, **self.options.driver()))
                # The first connection is made or it fails; later ones are tried until they are made.
                client.options |= {"allow_reconnect": True, "max_reconnect_attempts": -1}
                version = client.connected_server_version
                if (version.major, version.minor) < OLDEST:
                    raise Unsupported(
                        f"NATS {version.major}.{version.minor} is too old.", next="Use version 2.9 or later."
                    )
                self._client = client
                await self.request("INFO")
        except BaseException:
            self._client = None
            with contextlib.suppress(Exception):
                await _within(CLOSING, client.close())
            raise

    async def _on_error(self, error: Exception) -> None:
        text = str(error).lower()
        log.info("The driver reports: %s", type(error).__name__)
        if "permissions violation" in text:
            for request, subject in self._asking.items():
                if f'"{subject.lower()}"' in text:
                    self._end(request, error)
            for tell in list(self._denied):
                tell(text)

    async def _on_broken(self) -> None:
        self._seat = ""
        self._whole.clear()
        for request in self._asking:
            self._end(request, theirs.StaleConnectionError())
        for tell in list(self._broken):
            tell()

    def _end(self, request: asyncio.Task[Msg], error: Exception) -> None:
        """Nobody will answer it any more."""
        self._ended[request] = error
        request.cancel()

    async def _on_closed(self) -> None:
        """The driver has given up, which it does for some errors: begin anew, unless it was we who closed."""
        if self._client is not None and self._client.is_closed and self._reviving is None:
            self._reviving = asyncio.create_task(self._revive())

    async def _revive(self) -> None:
        closed = self._client
        failures = 0
        while self._client is closed:
            try:
                await self._open()
            except DragomanError:
                self._client = closed
                failures += 1
                await asyncio.sleep(RECONNECT.wait_s(failures))
        self._reviving = None

    def on_broken(self, tell: Callable[[], None]) -> None:
        """Call this when the connection is lost: what was on its way may not have come."""
        self._broken.add(tell)

    def off_broken(self, tell: Callable[[], None]) -> None:
        self._broken.discard(tell)

    def on_denied(self, tell: Callable[[str], None]) -> None:
        """Call this when the server refuses a subject: its words, in small letters."""
        self._denied.add(tell)

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
        if self._reviving is not None:
            await end(self._reviving)
            self._reviving = None
        if client is not None and not client.is_closed:
            with ours():
                await _within(self.options.timeout, client.close())

    async def ask(self, subject: str, payload: bytes = b"") -> Msg:
        """One request and its answer. Fails at once when none can come any more."""
        request = asyncio.create_task(self.client.request(subject, payload, self.options.timeout))
        self._asking[request] = subject
        try:
            return await request
        except asyncio.CancelledError:
            request.cancel()
            error = self._ended.pop(request, None)
            # It may be the caller, too, who is to end, and at this very moment.
            if error is not None and not is_ending():
                raise error from None
            raise
        finally:
            self._ended.pop(request, None)
            del self._asking[request]

    async def request(self, what: str, **body: Any) -> dict[str, Any]:
        """Ask JetStream. Raises ``Refused``, and the driver's errors."""
        answer = await self.ask(f"{self._api}.{what}", json.dumps(body).encode() if body else b"")
        return checked(answer.data)

    async def stream_info(self, name: str) -> dict[str, Any]:
        """What JetStream tells of a stream, once it is whole. Raises ``Refused``, and ``TimeoutError``.

        Early releases of 2.9, which Debian 12 has, tell of a stream while they are still making it. The
        server dies if it is asked in that moment for what is in the stream.
        """
        self._whole.discard(name)
        async with asyncio.timeout(self.options.timeout):
            while True:
                found = await self.request(f"STREAM.INFO.{name}")
                if self._is_whole(name, found):
                    return found
                await asyncio.sleep(0.01)

    def _is_whole(self, name: str, found: dict[str, Any]) -> bool:
        if found["created"].startswith(UNBORN):
            return False
        self._whole.add(name)
        return True

    async def until_whole(self, name: str) -> None:
        """Wait until a stream can be asked for what is in it. Raises as ``stream_info`` does."""
        if name not in self._whole:
            await self.stream_info(name)

    async def make_stream(self, name: str, **config: Any) -> None:
        """Unless it is there. Raises ``Refused`` if another of that name is."""
        what = f"STREAM.CREATE.{name}"
        try:
            found = await self.request(what, name=name, **config)
        except Refused as refused:
            if refused.number != Refused.SUBJECTS_OVERLAP:
                raise
            # Of two who make it at once one can be told so: the subjects are taken, by this very stream.
            found = await self.request(what, name=name, **config)
        if not self._is_whole(name, found):
            await self.stream_info(name)

    async def message(self, stream: str, **which: Any) -> dict[str, Any] | None:
        """A message that is kept, as the stream's leader has it. Raises ``Refused`` if there is no stream."""
        await self.until_whole(stream)
        try:
            found = await self.request(f"STREAM.MSG.GET.{stream}", **which)
        except Refused as refused:
            if refused.number == Refused.MESSAGE_NOT_FOUND:
                return None
            self._whole.discard(stream)
            raise
        message: dict[str, Any] = found["message"]
        return message

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


async def _within(seconds: float, work: Coroutine[Any, Any, None]) -> None:
    """A handshake that fails can leave the driver waiting for ever, deaf to being cancelled."""
    task = asyncio.create_task(work)
    try:
        done, _ = await asyncio.wait([task], timeout=seconds)
    finally:
        task.cancel()
    if not done:
        raise TimeoutError
    task.result()


def checked(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data)
    if "error" in found:
        raise Refused(found["error"])
    return found
