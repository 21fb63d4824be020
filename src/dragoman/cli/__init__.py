"""The command line: ``dragoman NOUN VERB``, one module per noun, imported only when it is asked for.

Exit codes: 0 done, 1 the answer is no (incompatible, lint errors, drift), 2 it could not be done.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

import typer

from dragoman.core.errors import ConfigurationError, DragomanError, NotNow

NOUNS = {
    "registry": "Contracts and schemas: serve, list, show, register, check, diff and more.",
    "channel": "Channels and messages: publish, tail, dead letters, replay, lag.",
    "gateway": "Envelopes from outside: serve drop-off and collection points, keys, check.",
    "model": "AsyncMDSL models: lint, format, AsyncAPI, diagrams, code.",
    "topology": "Publishers and subscribers of many programs: list, watch, explain, announce.",
    "pipeline": "Channels as tables with Spark: run, audit, backfill, quarantine, SQL.",
    "saga": "Sagas: list, show what happened, try stuck ones again.",
    "config": "The settings in force, and where each came from.",
}
"""Each is a module of this package with a Typer ``app``."""

COMMANDS = {
    "demo": "See it work: producers, consumers, a kill, and every message accounted for.",
    "serve": "Registry and gateway in one process, on embedded defaults.",
    "doctor": "Check Java, Spark, brokers and the registry, and say what to do.",
    "lsp": "The language server for AsyncMDSL models, over standard input and output.",
}
"""Each is a module of this package with a function of the same name."""


def main(arguments: list[str] | None = None) -> None:
    """The entry point of the ``dragoman`` program."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        application(given)(given, prog_name="dragoman")
    except (DragomanError, OSError) as error:
        from dragoman.cli.output import explain

        explain(_refused(error) if isinstance(error, OSError) else _reason(error), as_json="--json" in given)
        sys.exit(2)


def _refused(error: OSError) -> DragomanError:
    """What the system does not let us do, such as writing a file, as one of our errors."""
    return ConfigurationError(
        f"The system refuses: {error.strerror or error}.",
        code="configuration.system",
        next="Is the path right, may this user use it, and is the disk not full?",
        file=error.filename,
    )


def _reason(error: DragomanError) -> DragomanError:
    """The cause of an error that hides its cause from clients: the reader here is the operator."""
    cause = error.__cause__
    return cause if isinstance(error, NotNow) and isinstance(cause, DragomanError) else error


def application(arguments: list[str]) -> typer.Typer:
    """All nouns with their help; only the one that the arguments name is really loaded."""
    app = typer.Typer(
        help="Typed messages over any broker, under a contract that both sides can trust.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=app.info.help)(_options)
    named = next((word for word in arguments if not word.startswith("-")), None)
    completing = "_DRAGOMAN_COMPLETE" in os.environ
    for noun, summary in NOUNS.items():
        loaded = named == noun or completing
        group = import_module(f"dragoman.cli.{noun}").app if loaded else typer.Typer()
        app.add_typer(group, name=noun, help=summary, no_args_is_help=True)
    for command, summary in COMMANDS.items():
        loaded = named == command or completing
        function = getattr(import_module(f"dragoman.cli.{command}"), command) if loaded else _unloaded
        app.command(command, help=None if loaded else summary)(function)
    return app


def _unloaded() -> None:
    """Stands for a command in the help text of the whole program."""


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"dragoman {version('dragoman')}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", is_eager=True, callback=_show_version
    ),
) -> None:
    """Options of the program itself."""
