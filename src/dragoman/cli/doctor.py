"""``dragoman doctor``: what is there, what is missing, and what to do about it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, NamedTuple

import typer

from dragoman.cli.output import Json, answer_no, emit_table, run
from dragoman.client.connecting import open_broker, open_registry
from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.errors import DragomanError
from dragoman.core.extras import installation
from dragoman.core.loading import BROKERS, FORMATS, load, names, redacted

_JAVA = 17
_PATIENCE = 20.0
"""Seconds that a broker or a registry gets to answer."""


class State(StrEnum):
    GOOD = "ok"
    ABSENT = "absent"
    """Not there, and needed only by who wants to use it."""
    BAD = "wrong"


class Finding(NamedTuple):
    what: str
    state: State
    found: str
    next: str = ""


def doctor(
    broker: Annotated[
        list[str] | None, typer.Option("--broker", help="A broker to try; may be given more than once.")
    ] = None,
    registry: Annotated[str | None, typer.Option(help="The registry to try.")] = None,
    as_json: bool = Json,
) -> None:
    """Check Python, codecs, Java, Spark, brokers and the registry. Exit code 1 if something is wrong.

    Example: dragoman doctor --broker kafka://localhost:9092
    """
    findings = [_python(), _codecs(), _java(), _package("Spark", "pyspark", "spark"), *_adapters()]
    findings += [run(_broker(url)) for url in broker or [default_broker()]]
    findings.append(run(_registry(registry or default_registry())))
    rows = [(each.what, str(each.state), each.found, each.next) for each in findings]
    emit_table(["check", "state", "found", "what to do"], rows, as_json=as_json)
    if any(each.state is State.BAD for each in findings):
        answer_no()


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    return Finding(
        "Python", State.GOOD if good else State.BAD, found, "" if good else "Use Python 3.11 or later."
    )


def _codecs() -> Finding:
    """Whether Avro's codecs are native, or the slower ones in Python."""
    avro = load(FORMATS, "AVRO")
    if avro().native:
        return Finding("native codecs", State.GOOD, "in use")
    if avro(native=True).native:
        return Finding("native codecs", State.ABSENT, "switched off", "Unset DRAGOMAN_PURE.")
    advice = "For speed, install a C compiler and Python's headers, then Dragoman again."
    return Finding("native codecs", State.ABSENT, "not built", advice)


def _java() -> Finding:
    program = _java_program()
    if program is None:
        return Finding("Java", State.ABSENT, "none", f"For the pipeline, install Java {_JAVA} or later.")
    said = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(\d+)', said.stderr + said.stdout)
    if match is None:
        return Finding("Java", State.BAD, program, "It does not tell its version; set JAVA_HOME to another.")
    if int(match[1]) < _JAVA:
        return Finding(
            "Java", State.BAD, match[1], f"Spark needs {_JAVA} or later; set JAVA_HOME to such a one."
        )
    return Finding("Java", State.GOOD, match[1])


def _java_program() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which(os.path.join(home, "bin", "java")) if home else shutil.which("java")  # noqa: PTH118


def _package(what: str, package: str, extra: str) -> Finding:
    try:
        return Finding(what, State.GOOD, version(package))
    except PackageNotFoundError:
        return Finding(what, State.ABSENT, "not installed", installation(extra))


def _adapters() -> Iterator[Finding]:
    """Which brokers could be used as things are installed."""
    for scheme in names(BROKERS):
        try:
            load(BROKERS, scheme)
        except DragomanError as error:
            yield Finding(f"{scheme}://", State.ABSENT, error.what, error.next)
        else:
            yield Finding(f"{scheme}://", State.GOOD, "can be used")


async def _broker(url: str) -> Finding:
    async def look() -> str:
        broker, _ = open_broker(url)
        try:
            await broker.connect()
            return f"{len(await broker.channels())} channels"
        finally:
            await broker.close()

    return await _tried(f"broker {redacted(url)}", look)


async def _registry(url: str) -> Finding:
    async def look() -> str:
        registry, _ = open_registry(url)
        try:
            return f"{len(await registry.contracts())} contracts"
        finally:
            await registry.close()

    return await _tried(f"registry {redacted(url)}", look)


async def _tried(what: str, look: Callable[[], Awaitable[str]]) -> Finding:
    try:
        return Finding(what, State.GOOD, await asyncio.wait_for(look(), _PATIENCE))
    except DragomanError as error:
        return Finding(what, State.BAD, error.what, error.next or f"See the error {error.code}.")
    except TimeoutError:
        return Finding(what, State.BAD, f"no answer in {_PATIENCE:g} seconds", "Is it running?")
