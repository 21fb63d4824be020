"""``dragoman gateway serve``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.gateway.options import (
    DEFAULT_STORE,
    KEY_FILE,
    Config,
    Public,
    StoreUrl,
    configured,
)
from dragoman.cli.logs import Level, Log, LogLevel, LogStyle
from dragoman.cli.output import hint
from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import redacted


def serve(
    config: Config = None,
    public: Public = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8083,
    store: StoreUrl = DEFAULT_STORE,
    broker: Annotated[str | None, typer.Option(help="The broker's URL.")] = None,
    registry: Annotated[str | None, typer.Option(help="The registry's URL.")] = None,
    secret_file: Annotated[
        str,
        typer.Option(
            help="The gateway's secret, one for all of a store; made if missing. More lines are older ones."
        ),
    ] = KEY_FILE,
    inside_secret_file: Annotated[
        str | None, typer.Option(help="The secret that orchestrators check passes with.")
    ] = None,
    origin: Annotated[
        list[str] | None, typer.Option(help="Of pages that may call it from a browser: https://app.example")
    ] = None,
    certificate: Annotated[str | None, typer.Option(help="PEM file; turns TLS on.")] = None,
    key: Annotated[str | None, typer.Option(help="PEM file with the certificate's private key.")] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy in front of it speaks TLS.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that share the port.")] = 1,
    sep_key: Annotated[
        str | None, typer.Option(help="Key file of 'gateway sep-key'; answers by SEP, too.")
    ] = None,
    sep_port: Annotated[int, typer.Option(min=1, max=65535, help="The UDP port for SEP.")] = 8084,
    audit: Annotated[str | None, typer.Option(help="File for the audit, as JSON lines.")] = None,
    log: Log = LogStyle.TEXT,
    log_level: Level = LogLevel.WARNING,
) -> None:
    """Serve the gateway: drop-off point and collection point over HTTP and, with a key, over SEP.

    Example: dragoman gateway serve --public service.loans
    """
    from dragoman.gateway.configuration import options_from, secret_from, secrets_from
    from dragoman.gateway.http.app import HttpOptions
    from dragoman.gateway.http.server import SepOptions, ServerOptions, listen
    from dragoman.gateway.http.server import serve as serve_on
    from dragoman.registry.http.logs import set_up
    from dragoman.registry.http.serving import url_of
    from dragoman.registry.http.workers import run_workers

    file = configured(config, public)
    folder = None if config is None else Path(config).parent
    secret, *older = secrets_from(secret_file, make=True)
    gateway = replace(
        options_from(file, secret, folder),
        older_secrets=tuple(older),
        inside_secret=None if inside_secret_file is None else secret_from(inside_secret_file),
        store=store,
        broker=broker or default_broker(),
        registry=registry or default_registry(),
        audit=audit,
    )
    _check_sharing(workers, gateway.store, gateway.broker or "", gateway.registry or "")
    options = ServerOptions(
        gateway=gateway,
        http=HttpOptions(tuple(origin or ())),
        host=host,
        port=port,
        certificate=certificate,
        key=key,
        behind_proxy=behind_proxy,
        sep=None if sep_key is None else SepOptions(key=sep_key, port=sep_port),
    )
    if options.sep is not None and workers > 1:
        raise ConfigurationError(
            "Workers cannot share a SEP port: a session lives in one process.",
            next="Use one worker, and more gateways on one store.",
        )
    set_up(log.value, log_level.value)
    bound = listen(options)
    place = url_of(host, bound.getsockname()[1], tls=certificate is not None)
    count = len(gateway.policy.rules)
    hint(f"Gateway on {place} with {redacted(store)}; public destinations: {count}. Stop with Ctrl-C.")
    if options.sep is not None:
        hint(f"SEP on {host}, UDP port {options.sep.port}.")
    if not count:
        hint("Nothing can be reached from outside yet. Name destinations with --config or --public.")
    if workers > 1:
        run_workers(serve_on, options, bound, workers, log.value, log_level.value)
    else:
        serve_on(options, bound)


def _check_sharing(workers: int, store: str, broker: str, registry: str) -> None:
    """Workers are processes of their own: what lives in memory they cannot share."""
    in_memory = store.partition("?")[0] in ("sqlite://", "sqlite://:memory:")
    if workers > 1 and (in_memory or "memory" in (broker.partition(":")[0], registry.partition(":")[0])):
        raise ConfigurationError(
            "Workers cannot share what is in memory.", next="Use one worker, or a store and broker outside."
        )
