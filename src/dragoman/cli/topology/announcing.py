"""``dragoman topology announce`` and ``key``: speak for programs that cannot, and make keys to sign with."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.channel.options import pairs
from dragoman.cli.output import Json, emit_json, run, say
from dragoman.cli.signals import until_ended
from dragoman.cli.topology.options import (
    Discoveries,
    KeyFile,
    Patience,
    Properties,
    Scope,
    SignerName,
    TopicName,
    required,
    signer_of,
    topology_of,
)
from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import scheme_of
from dragoman.topology.endpoint import Endpoint
from dragoman.topology.manager import Topology
from dragoman.topology.signing import Signer, new_key
from dragoman.topology.topic import Role, topic_of


def announce(
    topic: TopicName,
    admin: Annotated[str, typer.Option("--admin", help="The type of its admin, such as kafka.")],
    type: Annotated[Role, typer.Option("--type", help="A publisher or a subscriber.")] = Role.PUBLISHER,
    scope: Scope = None,
    serializer: Annotated[str | None, typer.Option(help="What a publisher writes with.")] = None,
    property: Properties = None,
    discovery: Discoveries = None,
    signer: SignerName = None,
    key: KeyFile = None,
    seconds: Annotated[float | None, typer.Option("--for", help="Seconds to stay; else until ended.")] = None,
    timeout: Patience = 10.0,
    as_json: bool = Json,
) -> None:
    """Announce an endpoint and keep it alive as long as this command runs.

    Example: dragoman topology announce prices --admin kafka --type subscriber
    """
    wanted, more, urls = topic_of(topic, scope), dict(pairs(property)), required(discovery)
    for url in urls:
        if scheme_of(url) == "file":
            raise ConfigurationError(
                f"Nothing can be announced by {url}.", next="Write the entry into the file.", url=url
            )
    if serializer is None and type is Role.PUBLISHER:
        serializer = "avro"

    async def work() -> None:
        async with topology_of(urls, timeout, signer=signer_of(signer, key)) as topology:
            endpoint = Endpoint(topology.framework, 0, type, wanted, admin, serializer, more)
            await _hold(topology, endpoint, seconds, as_json)

    run(work())


async def _hold(topology: Topology, endpoint: Endpoint, seconds: float | None, as_json: bool) -> None:
    ended = until_ended()
    for each in topology.discoveries:
        each.announce(endpoint)
    if as_json:
        emit_json(endpoint.properties())
    else:
        say(f"Announced {endpoint.key}")
    sys.stdout.flush()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await ended.wait()
    for each in topology.discoveries:
        await each.withdraw(endpoint)


def key(
    name: Annotated[str, typer.Argument(help="The name to sign as.")],
    file: Annotated[Path, typer.Argument(help="Where the private key is written.")],
    as_json: bool = Json,
) -> None:
    """Make a signing key, and print the public one for those who shall trust it.

    Example: dragoman topology key alice alice.key
    """
    made = new_key()
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as target:
            target.write(made + "\n")
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be written: {error.strerror}") from error
    public = Signer(name, made).public
    if as_json:
        emit_json({name: public})
    else:
        say(f'"{name}": "{public}"')
