"""The gateway as a server process."""

from __future__ import annotations

import gc
import hmac
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.core.errors import ConfigurationError
from dragoman.gateway.gateway import Gateway
from dragoman.gateway.http.app import Application, HttpOptions
from dragoman.gateway.options import GatewayOptions
from dragoman.registry.http.addresses import LOOPBACK, Proxies
from dragoman.registry.http.connections import ConnectionLimits
from dragoman.registry.http.serving import (
    ServerThread,
    Uvicorn,
    bind,
    check_certificate,
    is_loopback,
    server,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SepOptions:
    """A SEP server beside the HTTP server."""

    key: str
    """The file with the server's key."""
    port: int = 8084


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
    """Whoever stands in front of it speaks TLS, and says in its headers where requests come from."""
    sep: SepOptions | None = None
    """Answer by SEP, too."""


def listen(options: ServerOptions) -> socket.socket:
    """Take the port, or refuse to. Tokens are not read from the open network by accident."""
    check_certificate(options)
    _proxies(options)  # Names that cannot be read are refused before the server starts.
    if options.certificate is None and not options.behind_proxy and not is_loopback(options.host):
        raise ConfigurationError(
            f"The gateway would listen on {options.host} without TLS, and tokens would travel in the clear.",
            code="configuration.public",
            next="Name a certificate, or say that a proxy speaks TLS (--behind-proxy).",
        )
    return bind(options)


_SWITCH = 0.001
"""Seconds after which the event loop lets the store's thread run, which only begins and commits."""


def application(gateway: Gateway, options: ServerOptions) -> Application:
    """The gateway by HTTP and, if wanted, by SEP."""
    if options.sep is None:
        return Application(gateway, options.http)
    # Behind a proxy or not, datagrams come straight to this port: they are sealed by themselves.
    from dragoman.gateway.sep import SepServer, ServerKey
    from dragoman.gateway.sep.point import sep_point

    key = ServerKey.read(Path(options.sep.key))
    secret = hmac.digest(options.gateway.secret, b"cookies of SEP", "sha256")
    sep = SepServer(sep_point(gateway), key, host=options.host, port=options.sep.port, cookie_secret=secret)
    return Application(gateway, options.http, sep)


def serve(options: ServerOptions, bound: socket.socket) -> None:
    """Serve until a signal asks to stop; requests under way are finished first."""
    sys.setswitchinterval(_SWITCH)
    # What is loaded stays, and messages have no cycles: looking for garbage often would only cost time.
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    app = application(Gateway(options.gateway), options)
    running = _server(app, options)
    try:
        running.run([bound])
    except SystemExit:
        if app.failure is None:
            raise
    if app.failure is not None:
        raise app.failure
    if not running.started:
        raise ConfigurationError("The gateway did not start.", next="Its log says why.")


def _server(app: Application, options: ServerOptions) -> Uvicorn:
    # The application answers a slow body itself. The connection is closed for bodies that it does not read.
    limits = ConnectionLimits(head_s=options.http.head_seconds, body_s=2 * options.http.body_seconds)
    return server(app, options, limits, _proxies(options))


def _proxies(options: ServerOptions) -> Proxies:
    """Without names, a proxy that is said to be there is on this machine."""
    return Proxies.named(LOOPBACK) if options.behind_proxy else Proxies()


class Server(ServerThread):
    """The gateway in a thread of its own: for tests, demonstrations and other programs.

    ``with Server(options) as server: ...`` is ready inside; ``server.url`` tells where.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.gateway = Gateway(options.gateway)
        self.application = application(self.gateway, options)
        super().__init__("gateway", _server(self.application, options), listen(options))
