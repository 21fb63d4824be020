"""A network between client and server that can be cut, stalled, slowed down and restored."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from types import TracebackType
from urllib.parse import urlsplit, urlunsplit

CHUNK = 64 * 1024


class Proxy:
    """Passes bytes on between a port of its own and a server, in a thread of its own.

        with Proxy("redis://127.0.0.1:6379") as proxy:
            ...            # clients use proxy.url
            proxy.cut()

    ``url`` names the server, with its port. A server that tells clients where to find it, as Kafka does, has
    to tell them ``port``, and may listen on another port, ``target``, for those that come this way.
    """

    def __init__(self, url: str, *, port: int = 0, target: int | None = None) -> None:
        parts = urlsplit(url)
        server = target or parts.port
        if parts.hostname is None or server is None:
            raise ValueError(f"A proxy needs to know host and port, but is given {url!r}.")
        self._server = parts.hostname, server
        self._parts = parts
        self.port = port
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread
        self._listener: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._is_cut = False
        self._delay_s = 0.0
        self._hurrying = asyncio.Event()
        """Set unless the network is slow."""

    @property
    def url(self) -> str:
        """The server's URL by this way."""
        credentials, at, _ = self._parts.netloc.rpartition("@")
        return urlunsplit(self._parts._replace(netloc=f"{credentials}{at}127.0.0.1:{self.port}"))

    def __enter__(self) -> Proxy:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="dragoman-proxy", daemon=True)
        self._flowing.set()
        self._hurrying.set()
        self._thread.start()
        starting = asyncio.run_coroutine_threadsafe(self._listen(), self._loop)
        starting.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def drop(self) -> None:
        """End all connections; new ones are welcome."""
        self._do(self._abort)

    def cut(self) -> None:
        """End all connections, and every new one at once, until ``restore``."""
        self._do(self._cut)

    def stall(self) -> None:
        """Connections stay, but nothing goes through in either direction until ``restore``."""
        self._do(self._flowing.clear)

    def slow(self, delay_s: float) -> None:
        """Every piece of up to 64 KiB, in either direction, takes this long, until ``restore``."""

        def delay() -> None:
            self._delay_s = delay_s
            self._hurrying.clear()

        self._do(delay)

    def restore(self) -> None:
        """All is well again. What was held back by ``stall`` goes on its way."""
        self._do(self._restore)

    def _do(self, what: Callable[[], object]) -> None:
        """In the proxy's thread; it is done when this returns."""

        async def call() -> None:
            what()

        asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    def _cut(self) -> None:
        self._is_cut = True
        self._abort()

    def _restore(self) -> None:
        self._is_cut = False
        self._hurrying.set()
        self._flowing.set()

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        assert self._listener is not None
        self._listener.close()
        self._restore()
        self._abort()
        while self._passing:
            await asyncio.gather(*self._passing, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        self._writers.add(writer)
        try:
            await self._join(reader, writer)
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
            self._passing.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flowing.wait()
        if self._is_cut:
            return
        with contextlib.suppress(OSError):
            server_reader, server_writer = await asyncio.open_connection(*self._server)
            self._writers.add(server_writer)
            try:
                await asyncio.gather(self._pass(reader, server_writer), self._pass(server_reader, writer))
            finally:
                server_writer.transport.abort()
                self._writers.discard(server_writer)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction. Its end is the end of the connection as a whole."""
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK):
                if not self._hurrying.is_set():
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._delay_s):
                            await self._hurrying.wait()
                await self._flowing.wait()
                writer.write(chunk)
                await writer.drain()
        await self._flowing.wait()
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()
