"""The registry as a server process."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Protocol

import uvicorn
from starlette.types import ASGIApp

from dragoman.core.errors import ConfigurationError
from dragoman.registry.http.app import build
from dragoman.registry.http.authenticate import Authenticator, JwtOptions
from dragoman.registry.limits import Limits
from dragoman.registry.service import RegistryService

_GRACE = 10
"""Seconds that requests under way get when the server stops."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Everything about a server that can be chosen."""

    store: str
    host: str = "127.0.0.1"
    port: int = 8081
    certificate: str | None = None
    """A PEM file with the server's certificate chain; with it the server speaks TLS only."""
    key: str | None = None
    credentials: bool = False
    """Ask for keys and passwords, which are kept in the store."""
    jwt: JwtOptions | None = None
    """Accept JSON Web Tokens too."""
    public_without_credentials: bool = False
    short_conflict_code: bool = False
    limits: Limits = field(default_factory=Limits)


class Listening(Protocol):
    """Where a server listens, and with which certificate. Other services than the registry have it, too."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def certificate(self) -> str | None: ...
    @property
    def key(self) -> str | None: ...


def check_exposure(options: ServerOptions) -> None:
    """Refuse to offer everything to everybody by accident."""
    guarded = options.credentials or options.jwt is not None
    if not guarded and not options.public_without_credentials and not is_loopback(options.host):
        raise ConfigurationError(
            f"The server would listen on {options.host}, for everybody, without asking for credentials.",
            code="configuration.public",
            next="Turn authentication on, listen on 127.0.0.1, or say that it is meant (--allow-public).",
        )


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


class Server:
    """A server in a thread of its own: for tests, demonstrations and other programs.

    ``with Server(options) as server: ...`` is ready inside; ``server.url`` tells where.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self._socket = listen(options)
        self.service = RegistryService.open(options.store, limits=options.limits)
        host, port = self._socket.getsockname()[:2]
        scheme = "https" if options.certificate else "http"
        self.url = f"{scheme}://{host}:{port}"
        self._server = server(application(self.service, options), options)
        self._thread = threading.Thread(target=self._run, name="registry-server", daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        self._server.ready.wait()
        if not self._server.started:
            raise ConfigurationError("The registry's server did not start.", next="See its log.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Finish what is under way, then stop."""
        self._server.should_exit = True
        self._thread.join(60)
        self.service.engine.close()

    def _run(self) -> None:
        # Uvicorn leaves by SystemExit when it cannot start; its log says why.
        with suppress(SystemExit):
            self._server.run([self._socket])
        self._server.ready.set()


def serve(options: ServerOptions, bound: socket.socket) -> None:
    """Serve until a signal asks to stop; requests under way are finished first."""
    service = RegistryService.open(options.store, limits=options.limits)
    try:
        server(application(service, options), options).run([bound])
    finally:
        service.engine.close()


def application(service: RegistryService, options: ServerOptions) -> ASGIApp:
    guarded = options.credentials or options.jwt is not None
    authenticator = Authenticator(service.engine, options.jwt) if guarded else None
    return build(service, authenticator=authenticator, short_conflict_code=options.short_conflict_code)


def listen(options: ServerOptions) -> socket.socket:
    """Take the port, or refuse to."""
    check_exposure(options)
    check_certificate(options)
    return bind(options)


def bind(options: Listening) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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
        await super().startup(sockets)
        self.ready.set()


def server(
    app: ASGIApp,
    options: Listening,
    protocol: type[asyncio.Protocol] | Literal["httptools"] = "httptools",
    *,
    behind_proxy: bool = True,
) -> Uvicorn:
    """``behind_proxy`` believes proxies that are named in ``FORWARDED_ALLOW_IPS``, or on this machine."""
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http=protocol,
        proxy_headers=behind_proxy,
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=75,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
    )
    return Uvicorn(config)
