"""The registry as a server process."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from starlette.types import ASGIApp

from dragoman.core.errors import ConfigurationError
from dragoman.registry.http.addresses import Proxies
from dragoman.registry.http.app import build
from dragoman.registry.http.authenticate import Authenticator, JwtOptions
from dragoman.registry.http.connections import ConnectionLimits
from dragoman.registry.http.serving import ServerThread, bind, check_certificate, is_loopback, server
from dragoman.registry.limits import Limits
from dragoman.registry.service import RegistryService


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
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)


def check_exposure(options: ServerOptions) -> None:
    """Refuse to offer everything to everybody by accident."""
    guarded = options.credentials or options.jwt is not None
    if not guarded and not options.public_without_credentials and not is_loopback(options.host):
        raise ConfigurationError(
            f"The server would listen on {options.host}, for everybody, without asking for credentials.",
            code="configuration.public",
            next="Turn authentication on, listen on 127.0.0.1, or say that it is meant (--allow-public).",
        )


class Server(ServerThread):
    """The registry in a thread of its own: for tests, demonstrations and other programs.

    ``with Server(options) as server: ...`` is ready inside; ``server.url`` tells where.
    """

    def __init__(self, options: ServerOptions) -> None:
        bound = listen(options)
        try:
            self.service = RegistryService.open(options.store, limits=options.limits)
        except BaseException:
            bound.close()
            raise
        running = server(application(self.service, options), options, options.connections, Proxies.named())
        super().__init__("registry", running, bound)

    def close(self) -> None:
        super().close()
        self.service.engine.close()


def serve(options: ServerOptions, bound: socket.socket) -> None:
    """Serve until a signal asks to stop; requests under way are finished first."""
    service = RegistryService.open(options.store, limits=options.limits)
    try:
        server(application(service, options), options, options.connections, Proxies.named()).run([bound])
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
    Proxies.named()  # One that cannot be read is refused before the server starts.
    return bind(options)
