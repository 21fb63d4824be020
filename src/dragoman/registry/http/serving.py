"""Serving over HTTP: what the servers of the registry and of others have in common."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Protocol, Self, cast

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.core.errors import ConfigurationError
from dragoman.registry.http.addresses import Forwarded, Proxies
from dragoman.registry.http.connections import BoundedProtocol, ConnectionLimits, bounded
from dragoman.registry.http.handshakes import counted

_SEND_BUFFER = 128 * 1024
_GRACE = 10
"""Seconds that requests under way get when the server stops. Then their connections are closed."""
_LAST_GRACE = 2
"""Seconds after that in which requests end by themselves. Then they are cancelled."""


class Listening(Protocol):
    """Where a server listens, and with which certificate."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def certificate(self) -> str | None: ...
    @property
    def key(self) -> str | None: ...


def check_certificate(options: Listening) -> None:
    """Refuse a certificate that clients could never be shown."""
    if options.certificate is None:
        if options.key is not None:
            raise ConfigurationError(
                "A private key is of no use without its certificate.", next="Name it too: --certificate FILE"
            )
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(options.certificate, options.key)
    except OSError as error:
        raise ConfigurationError(
            f"The certificate or its key cannot be used: {error}.",
            next="Both are PEM files; the key may be in the certificate's file.",
            certificate=options.certificate,
            key=options.key,
        ) from error


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def url_of(host: str, port: int, *, tls: bool) -> str:
    """Where a server is. An address of IPv6 stands in brackets."""
    name = f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{name}:{port}"


def bind(options: Listening) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Its connections have the same. A buffer that the kernel lets grow is emptied in steps of more than a
    # megabyte, so that a slow reader would seem to have stopped.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    try:
        bound.bind((options.host, options.port))
    except (OSError, OverflowError) as error:
        bound.close()
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise ConfigurationError(
            f"The server cannot listen on {options.host}, port {options.port}: {reason}.",
            next="Choose another port, or stop who uses it.",
        ) from error
    bound.listen(2048)
    return bound


class Uvicorn(uvicorn.Server):
    """Tells other threads when it is ready."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop when told to, and let the caller tidy up afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        listen = loop.create_server

        async def create_server(create: Any, *, ssl: Any = None, **options: Any) -> asyncio.Server:
            return await listen(create if ssl is None else counted(loop, create, ssl), **options)

        loop.create_server = create_server  # type: ignore[method-assign,assignment]
        try:
            await super().startup(sockets)
        finally:
            vars(loop).pop("create_server", None)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        protocol = cast(type[BoundedProtocol], self.config.http_protocol_class)
        protocol.abort_handshakes()
        closing = asyncio.get_running_loop().call_later(_GRACE, protocol.abort_all)
        try:
            await super().shutdown(sockets)
        finally:
            closing.cancel()


class Cancellable:
    """Only the server cancels requests, when it stops: it would log a stack trace for each."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if scope["type"] != "http":
                raise


def server(
    app: ASGIApp,
    options: Listening,
    limits: ConnectionLimits,
    proxies: Proxies,
) -> Uvicorn:
    config = uvicorn.Config(
        Cancellable(Forwarded(app, proxies)),
        interface="asgi3",
        http=bounded(limits),
        proxy_headers=False,
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=_GRACE + _LAST_GRACE,
        timeout_keep_alive=limits.idle_s,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
    )
    return Uvicorn(config)


class ServerThread:
    """A server in a thread of its own: ready inside ``with``; ``url`` tells where."""

    def __init__(self, name: str, running: Uvicorn, bound: socket.socket) -> None:
        host, port = bound.getsockname()[:2]
        self.url = url_of(host, port, tls=running.config.is_ssl)
        self._name = name
        self._running = running
        self._socket = bound
        self._thread = threading.Thread(target=self._run, name=f"{name}-server", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._running.ready.wait()
        if not self._running.started:
            self.close()
            raise ConfigurationError(f"The {self._name} did not start.", next="Its log says why.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Finish what is under way, then stop."""
        self._running.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(60)
        self._socket.close()

    def _run(self) -> None:
        try:
            # Uvicorn leaves by SystemExit when it cannot start; its log says why.
            with suppress(SystemExit):
                self._running.run([self._socket])
        finally:
            self._running.ready.set()
