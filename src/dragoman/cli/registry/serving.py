"""``dragoman registry serve``."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman.cli.logs import Level, Log, LogLevel, LogStyle
from dragoman.cli.output import hint
from dragoman.cli.registry.options import connection_limits, limits
from dragoman.core.defaults import default_registry
from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import redacted


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8081,
    store: Annotated[
        str | None, typer.Option(help="The database: sqlite://path, postgresql://..., mysql://...")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that share the port.")] = 1,
    credentials: Annotated[
        bool, typer.Option("--credentials", help="Ask for keys and passwords (see: registry keys).")
    ] = False,
    jwt_key: Annotated[
        str | None, typer.Option(help="File with the key that tokens are checked with.")
    ] = None,
    jwt_algorithm: Annotated[str, typer.Option(help="The one algorithm that tokens may use.")] = "RS256",
    jwt_audience: Annotated[str, typer.Option(help="The audience that tokens must name.")] = "",
    jwt_issuer: Annotated[str | None, typer.Option(help="The issuer that tokens must name.")] = None,
    certificate: Annotated[str | None, typer.Option(help="PEM file; turns TLS on.")] = None,
    key: Annotated[str | None, typer.Option(help="PEM file with the certificate's private key.")] = None,
    allow_public: Annotated[
        bool, typer.Option("--allow-public", help="Listen on a public address without credentials.")
    ] = False,
    short_conflict_code: Annotated[
        bool, typer.Option("--short-conflict-code", help="Answer 409 instead of 40901, for older clients.")
    ] = False,
    log: Log = LogStyle.TEXT,
    log_level: Level = LogLevel.WARNING,
) -> None:
    """Serve the registry: the contract API, Confluent's API, and OpenSchema.

    Example: dragoman registry serve --port 8081 --store sqlite://registry.db
    """
    from dragoman.registry import RegistryService
    from dragoman.registry.http.authenticate import JwtOptions
    from dragoman.registry.http.logs import set_up
    from dragoman.registry.http.server import ServerOptions, listen
    from dragoman.registry.http.server import serve as serve_on
    from dragoman.registry.http.serving import url_of
    from dragoman.registry.http.workers import run_workers

    jwt = JwtOptions.from_file(jwt_key, jwt_algorithm, jwt_audience, jwt_issuer) if jwt_key else None
    if jwt is None and (jwt_audience or jwt_issuer):
        raise ConfigurationError("Tokens cannot be checked without a key.", next="Name it: --jwt-key FILE")
    url = store or default_registry()
    if url.startswith(("http://", "https://")):
        raise ConfigurationError(
            "A server needs a database, not another server.", next="Use --store sqlite://path"
        )
    if workers > 1 and url.partition("?")[0] in ("sqlite://", "sqlite://:memory:"):
        raise ConfigurationError(
            "Workers cannot share a database in memory.", next="Use --store sqlite://path, or one worker."
        )
    options = ServerOptions(
        url,
        host,
        port,
        certificate,
        key,
        credentials,
        jwt,
        allow_public,
        short_conflict_code,
        limits(),
        connection_limits(),
    )
    set_up(log.value, log_level.value)
    bound = listen(options)
    place = url_of(host, bound.getsockname()[1], tls=certificate is not None)
    hint(f"Registry on {place} with {redacted(url)}. Look at {place}/docs; stop with Ctrl-C.")
    if workers > 1:
        # A store that cannot be used is told once, not by each worker again and again.
        RegistryService.open(url, limits=options.limits).engine.close()
        run_workers(serve_on, options, bound, workers, log.value, log_level.value)
    else:
        serve_on(options, bound)
