"""``dragoman topology list`` and ``watch``: the endpoints of all programs that the discoveries know."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from dragoman.cli.output import Json, emit_json, emit_table, hint, run, say
from dragoman.cli.signals import until_ended
from dragoman.cli.topology.options import Discoveries, Patience, required, topology_of
from dragoman.topology.discovery import Discovery
from dragoman.topology.endpoint import Endpoint
from dragoman.topology.opening import open_discovery
from dragoman.topology.topic import Role

SILENCE = 3.0
"""Seconds after which a discovery that has not answered is told of."""
COLUMNS = ("type", "topic", "scope", "admin", "serializer", "framework", "service")
RoleOption = Annotated[Role | None, typer.Option("--type", help="Publishers or subscribers alone.")]
TopicOption = Annotated[str | None, typer.Option("--topic", help="This topic alone.")]


def list_endpoints(
    discovery: Discoveries = None,
    topic: TopicOption = None,
    type: RoleOption = None,
    timeout: Patience = 10.0,
    as_json: bool = Json,
) -> None:
    """List the publishers and subscribers that are there now.

    Example: dragoman topology list --discovery etcd://localhost:2379
    """

    async def work() -> list[Endpoint]:
        async with topology_of(required(discovery), timeout) as topology:
            return [each for each in topology.endpoints if _wanted(each, topic, type)]

    found = sorted(run(work()), key=lambda each: (each.topic.key, each.role, each.id))
    if as_json:
        emit_json([each.properties() for each in found])
    else:
        emit_table(COLUMNS, [_row(each) for each in found], empty="Nobody is there.")


def watch(
    discovery: Discoveries = None,
    topic: TopicOption = None,
    type: RoleOption = None,
    seconds: Annotated[
        float | None, typer.Option("--for", help="Seconds to watch; else until ended.")
    ] = None,
    count: Annotated[int | None, typer.Option(help="End after so many changes.")] = None,
    as_json: bool = Json,
) -> None:
    """Tell who comes and who goes, one line for each.

    Example: dragoman topology watch --topic prices --for 60
    """
    run(_watch(required(discovery), Printer(topic, type, count, as_json), seconds))


async def _watch(urls: list[str], printer: Printer, seconds: float | None) -> None:
    opened = [open_discovery(url) for url in urls]
    ended = asyncio.create_task(until_ended().wait())
    done = asyncio.create_task(printer.done.wait())
    tellers = [asyncio.create_task(_tell_of_silence(each)) for each in opened]
    try:
        for each in opened:
            await each.start("", printer.watcher(each))
        await asyncio.wait((ended, done), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (ended, done, *tellers):
            task.cancel()
        for each in opened:
            await each.close()


async def _tell_of_silence(discovery: Discovery) -> None:
    """Nobody there and nobody who could tell are not the same."""
    try:
        async with asyncio.timeout(SILENCE):
            await discovery.synced()
    except TimeoutError:
        hint(f"{discovery.url} has not answered yet. {discovery.trouble or ''}".rstrip())


class Printer:
    """Prints a change once, though several discoveries tell of it."""

    def __init__(self, topic: str | None, role: Role | None, count: int | None, as_json: bool) -> None:
        self._topic = topic
        self._role = role
        self._left = count
        self._as_json = as_json
        self._known_by: dict[str, set[object]] = {}
        self._shown: dict[str, Endpoint] = {}
        self.done = asyncio.Event()

    def watcher(self, source: object) -> Told:
        return Told(self, source)

    def found(self, source: object, endpoint: Endpoint) -> None:
        self._known_by.setdefault(endpoint.key, set()).add(source)
        before = self._shown.get(endpoint.key)
        if before != endpoint:
            self._shown[endpoint.key] = endpoint
            self._print("appeared" if before is None else "changed", endpoint)

    def lost(self, source: object, endpoint: Endpoint) -> None:
        known = self._known_by.get(endpoint.key, set())
        known.discard(source)
        if not known and self._shown.pop(endpoint.key, None) is not None:
            self._print("gone", endpoint)

    def _print(self, change: str, endpoint: Endpoint) -> None:
        if not _wanted(endpoint, self._topic, self._role) or self.done.is_set():
            return
        if self._as_json:
            emit_json({"change": change, "endpoint": endpoint.properties()})
        else:
            say(f"{change:8} {endpoint.role:10} {endpoint.topic.key} by {endpoint.admin}, {endpoint.id}")
        # Whoever reads this through a pipe wants it now.
        sys.stdout.flush()
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self.done.set()


class Told:
    """What one discovery tells."""

    def __init__(self, printer: Printer, source: object) -> None:
        self._printer = printer
        self._source = source

    def found(self, endpoint: Endpoint) -> None:
        self._printer.found(self._source, endpoint)

    def lost(self, endpoint: Endpoint) -> None:
        self._printer.lost(self._source, endpoint)


def _wanted(endpoint: Endpoint, topic: str | None, role: Role | None) -> bool:
    return topic in (None, endpoint.topic.name) and role in (None, endpoint.role)


def _row(endpoint: Endpoint) -> tuple[object, ...]:
    return (
        endpoint.role.value,
        endpoint.topic.name,
        endpoint.topic.scope,
        endpoint.admin,
        endpoint.serializer,
        endpoint.framework,
        endpoint.service,
    )
