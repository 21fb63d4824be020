"""What the commands on channels have in common: arguments, times, connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Annotated

import typer

from dragoman.client.connecting import open_broker, open_registry
from dragoman.client.contracts import Contracts
from dragoman.client.history import Start
from dragoman.client.options import ClientOptions
from dragoman.core.broker import Broker

Name = Annotated[str, typer.Argument(help="The channel's name.")]
BrokerUrl = Annotated[
    str | None, typer.Option("--broker", metavar="URL", help="The broker; embedded by default.")
]
RegistryUrl = Annotated[
    str | None, typer.Option("--registry", metavar="URL", help="The registry; embedded by default.")
]


def moment(text: str) -> Start:
    """``earliest``, ``latest``, a time as ISO 8601, or milliseconds since the epoch."""
    match text:
        case "earliest":
            return "earliest"
        case "latest":
            return "latest"
    return milliseconds(text)


def milliseconds(text: str) -> int:
    if text.isdigit():
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is neither a time such as 2026-01-31T12:00:00 nor milliseconds."
        ) from error
    return int(when.timestamp() * 1000)


From = Annotated[
    str | None, typer.Option("--from", help="earliest, latest, a time (ISO 8601), or milliseconds.")
]


@asynccontextmanager
async def connected(url: str | None) -> AsyncIterator[Broker]:
    broker, _ = open_broker(url)
    await broker.connect()
    try:
        yield broker
    finally:
        await broker.close()


@asynccontextmanager
async def contracts_of(url: str | None) -> AsyncIterator[Contracts]:
    registry, _ = open_registry(url)
    try:
        yield Contracts(registry, ClientOptions())
    finally:
        await registry.close()


def pairs(given: list[str] | None) -> Iterator[tuple[str, str]]:
    for text in given or ():
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE.")
        yield name, value
