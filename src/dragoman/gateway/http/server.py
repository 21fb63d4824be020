"""The gateway as a server process."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType

from dragoman.core.errors import ConfigurationError
from dragoman.gateway.gateway import Gateway
from dragoman.gateway.http.app import Application, HttpOptions
from dragoman.gateway.options import GatewayOptions
from dragoman.registry.http.server import bind, check_certificate, is_loopback, server


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Everything about a server that can be chosen."""

    gateway: GatewayOptions
    http: HttpOptions = field(default_factory=HttpOptions)
    host: str = "127.0.0.1"
    port: int = 8083
    certificate: str | None = None
    """A PEM file with the server's certificate chain; with it the server speaks TLS only."""
    key: str | None = None
    behind_proxy: bool = False
    """Whoever stands in front of it speaks TLS."""


def listen(options: ServerOptions) -> socket.socket:
    """Take the port, or refuse to. Tokens are not read from the open network by accident."""
    check_certificate(options)
    if options.certificate is None and not options.behind_proxy and not is_loopback(options.host):
        raise ConfigurationError(
            f"The gateway would listen on {options.host} without TLS, and tokens would travel in the clear.",
            code="configuration.public",
            next="Name a certificate, or say that a proxy speaks TLS (--behind-proxy).",
        )
    return bind(options)


def serve(options: ServerOptions, bound: socket.socket) -> None:
    """Serve until a signal asks to stop; requests under way are finished first."""
    running = server(Application(Gateway(options.gateway), options.http), options)
    running.run([bound])
    if not running.started:
        raise ConfigurationError("The gateway did not start.", next="Its log says why.")


class Server:
    """A server in a thread of its own: for tests, demonstrations and other programs.

    ``with Server(options) as server: ...`` is ready inside; ``server.url`` tells where.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.gateway = Gateway(options.gateway)
        self.application = Application(self.gateway, options.http)
        self._socket = listen(options)
        host, port = self._socket.getsockname()[:2]
        self.url = f"{'https' if options.certificate else 'http'}://{host}:{port}"
        self._server = server(self.application, options)
        self._thread = threading.Thread(target=self._run, name="gateway-server", daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        self._server.ready.wait()
        if not self._server.started:
            raise ConfigurationError("The gateway did not start.", next="Its log says why.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Finish what is under way, then stop."""
        self._server.should_exit = True
        self._thread.join(60)

    def _run(self) -> None:
        # Uvicorn leaves by SystemExit when it cannot start; its log says why.
        with suppress(SystemExit):
            self._server.run([self._socket])
        self._server.ready.set()
