"""``dragoman serve``: registry and gateway in one process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.gateway.options import DEFAULT_STORE, KEY_FILE, Config, Public, configured
from dragoman.cli.logs import LogLevel, LogStyle
from dragoman.cli.output import hint
from dragoman.cli.registry.options import connection_limits, limits
from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import redacted
from dragoman.core.settings import read_section, setting

if TYPE_CHECKING:
    from dragoman.gateway.http.server import ServerOptions


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """The section ``serve`` of the settings."""

    host: str = setting("127.0.0.1", "The address to listen on.")
    registry_port: int = setting(8081, "The registry's port; 0 takes a free one.")
    gateway_port: int = setting(8083, "The gateway's port; 0 takes a free one.")
    certificate: str | None = setting(None, "PEM file with the certificate; turns TLS on.")
    key: str | None = setting(None, "PEM file with the certificate's private key.")
    behind_proxy: bool = setting(False, "A proxy in front of it speaks TLS.")
    credentials: bool = setting(False, "The registry asks for keys and passwords.")
    allow_public: bool = setting(False, "The registry may listen on a public address without credentials.")
    gateway_config: str | None = setting(None, "TOML file with the gateway's public destinations.")
    gateway_store: str = setting(DEFAULT_STORE, "Where the gateway keeps what waits to be collected.")
    gateway_secret_file: str = setting(KEY_FILE, "The gateway's secret; made if it is missing.")
    inside_secret_file: str | None = setting(None, "The secret that orchestrators check passes with.")
    origins: tuple[str, ...] = setting((), "Web pages that may call the gateway from a browser.")
    sep_key: str | None = setting(None, "Key file of a SEP server beside the gateway.")
    sep_port: int = setting(8084, "The UDP port for SEP.")
    log: str = setting("text", "How log lines are written: text or json.")
    log_level: str = setting("warning", "debug, info, warning or error.")


def serve(
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    registry_port: Annotated[int | None, typer.Option(min=0, max=65535, help="The registry's port.")] = None,
    gateway_port: Annotated[int | None, typer.Option(min=0, max=65535, help="The gateway's port.")] = None,
    config: Config = None,
    public: Public = None,
) -> None:
    """Serve registry and gateway in one process. All else is in dragoman.toml: see 'dragoman config show'.

    Example: dragoman serve --public service.loans
    """
    from dragoman.gateway.http.server import listen
    from dragoman.gateway.http.server import serve as serve_gateway
    from dragoman.registry.http.logs import set_up
    from dragoman.registry.http.server import Server
    from dragoman.registry.http.server import ServerOptions as RegistryOptions
    from dragoman.registry.http.serving import url_of

    given: dict[str, Any] = {"host": host, "registry_port": registry_port, "gateway_port": gateway_port}
    settings = replace(
        read_section(ServeSettings, "serve").values,
        **{name: value for name, value in given.items() if value is not None},
    )
    _check(settings)
    store = default_registry()
    if store.startswith(("http://", "https://")):
        raise ConfigurationError(
            "A server needs a database, not another server.", next="Set registry to sqlite://path"
        )
    registry = RegistryOptions(
        store,
        settings.host,
        settings.registry_port,
        settings.certificate,
        settings.key,
        settings.credentials,
        public_without_credentials=settings.allow_public,
        limits=limits(),
        connections=connection_limits(),
    )
    options = _gateway(settings, store, config, public)
    set_up(LogStyle(settings.log).value, settings.log_level)
    bound = listen(options)
    place = url_of(settings.host, bound.getsockname()[1], tls=settings.certificate is not None)
    with Server(registry) as running:
        hint(f"Registry on {running.url} with {redacted(store)}.")
        hint(f"Gateway on {place}. Stop with Ctrl-C.")
        if options.sep is not None:
            hint(f"SEP on {settings.host}, UDP port {options.sep.port}.")
        if not options.gateway.policy.rules:
            hint("Nothing can be reached through the gateway yet: see 'dragoman gateway check --help'.")
        serve_gateway(options, bound)


def _gateway(
    settings: ServeSettings, registry: str, config: str | None, public: list[str] | None
) -> ServerOptions:
    from dragoman.gateway.configuration import options_from, secret_from, secrets_from
    from dragoman.gateway.http.app import HttpOptions
    from dragoman.gateway.http.server import SepOptions, ServerOptions

    config = config or settings.gateway_config
    file = configured(config, public)
    folder = None if config is None else Path(config).parent
    inside = settings.inside_secret_file
    secret, *older = secrets_from(settings.gateway_secret_file, make=True)
    return ServerOptions(
        gateway=replace(
            options_from(file, secret, folder),
            older_secrets=tuple(older),
            inside_secret=None if inside is None else secret_from(inside),
            store=settings.gateway_store,
            broker=default_broker(),
            registry=registry,
        ),
        http=HttpOptions(settings.origins),
        host=settings.host,
        port=settings.gateway_port,
        certificate=settings.certificate,
        key=settings.key,
        behind_proxy=settings.behind_proxy,
        sep=None if settings.sep_key is None else SepOptions(key=settings.sep_key, port=settings.sep_port),
    )


def _check(settings: ServeSettings) -> None:
    for name, value, allowed in (
        ("log", settings.log, tuple(LogStyle)),
        ("log_level", settings.log_level, tuple(LogLevel)),
    ):
        if value not in allowed:
            raise ConfigurationError(
                f"The setting serve.{name} cannot be {value!r}.", next=f"Use {', '.join(allowed)}."
            )
    if settings.sep_port == 0:
        raise ConfigurationError("The setting serve.sep_port cannot be 0.", next="Clients have to know it.")
