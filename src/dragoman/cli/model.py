"""``dragoman model``: lint, format, convert, draw, generate from and apply AsyncMDSL models."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from dragoman.core.errors import ConfigurationError

if TYPE_CHECKING:
    from dragoman.language.diagnostic import Diagnostic
    from dragoman.language.model import Model
    from dragoman.language.parser import Parsed
    from dragoman.language.running.plan import Change
    from dragoman.topology.endpoint import Endpoint

app = typer.Typer(help="AsyncMDSL models: lint, format, AsyncAPI, diagrams, code, plan, apply.")

File = Annotated[Path, typer.Argument(help="A model, such as loan-broker.mdsl.")]
Files = Annotated[list[Path], typer.Argument(help="Models, such as loan-broker.mdsl.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to this file, not to the terminal.")
]


class Spec(StrEnum):
    V2_0 = "2.0.0"
    V2_6 = "2.6.0"
    V3_0 = "3.0.0"
    V3_1 = "3.1.0"


class Picture(StrEnum):
    SVG = "svg"
    MERMAID = "mermaid"


class SchemaLanguage(StrEnum):
    AVRO = "avro"
    JSON = "json"
    PROTOBUF = "protobuf"
    THRIFT = "thrift"


@app.command()
def lint(
    files: Files,
    fix: Annotated[bool, typer.Option("--fix", help="Make the changes that rules offer.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    sarif: Annotated[bool, typer.Option("--sarif", help="Print a SARIF log for code review.")] = False,
) -> None:
    """Check models. Exit 0: no errors; 1: errors; 2: a model cannot be read or parsed.

    Example: dragoman model lint loan-broker.mdsl --fix
    """
    from dragoman.language.lint import fix as mended
    from dragoman.language.lint import has_errors
    from dragoman.language.lint import lint as check
    from dragoman.language.lint.output import as_json as rows
    from dragoman.language.lint.output import as_sarif
    from dragoman.language.model import read_model
    from dragoman.language.parser import parse

    if as_json and sarif:
        raise typer.BadParameter("Use --json or --sarif, not both.")
    results: list[tuple[Parsed, list[Diagnostic]]] = []
    for file in files:
        text = read_model(file)
        if fix and parse(text).ok:
            better = mended(text, str(file))
            if better != text:
                _save(better, file)
                text = better
        parsed = parse(text, str(file))
        results.append((parsed, check(parsed)))
    if sarif:
        _print_json(as_sarif([(parsed.source, found) for parsed, found in results]))
    elif as_json:
        _print_json([row for parsed, found in results for row in rows(parsed.source, found)])
    else:
        for parsed, found in results:
            _print_diagnostics(parsed, found)
    if any(not parsed.ok for parsed, _ in results):
        raise typer.Exit(2)
    if any(has_errors(found) for _, found in results):
        raise typer.Exit(1)


@app.command("format")
def format_(
    files: Files,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 if something would be.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Change nothing; print what would be.")] = False,
) -> None:
    """Rewrite models in the canonical form, in place.

    Example: dragoman model format loan-broker.mdsl --diff
    """
    from difflib import unified_diff

    from dragoman.language.formatter import format_text
    from dragoman.language.model import read_model

    changed: list[Path] = []
    for file in files:
        text = read_model(file)
        formatted = format_text(text, str(file))
        if formatted == text:
            continue
        changed.append(file)
        if diff:
            old, new = text.splitlines(True), formatted.splitlines(True)
            sys.stdout.writelines(unified_diff(old, new, str(file), str(file)))
        elif check:
            typer.echo(f"{file} would be reformatted.")
        else:
            _save(formatted, file)
            typer.echo(f"{file} was reformatted.")
    if changed and (check or diff):
        raise typer.Exit(1)


@app.command()
def asyncapi(
    file: File,
    spec: Annotated[Spec, typer.Option(help="The version of AsyncAPI.")] = Spec.V3_0,
    endpoint: Annotated[str | None, typer.Option(help="From the side of this message endpoint.")] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON instead of YAML.")] = False,
    output: Output = None,
) -> None:
    """Write an AsyncAPI document.

    Example: dragoman model asyncapi loan-broker.mdsl --spec 3.0.0 -o loan-broker.yaml
    """
    from dragoman.language.generators.asyncapi import generate, render

    model = _checked(file)
    form = "json" if json or (output is not None and output.suffix == ".json") else "yaml"
    _write(render(generate(model, spec.value, endpoint), form), output)


@app.command()
def diagram(
    file: File,
    form: Annotated[Picture, typer.Option("--format", "-f", help="svg or mermaid.")] = Picture.SVG,
    flow: Annotated[str | None, typer.Option(help="Draw this flow, not the system.")] = None,
    output: Output = None,
) -> None:
    """Draw the system, or one of its flows.

    Example: dragoman model diagram loan-broker.mdsl -o loan-broker.svg
    """
    from dragoman.language.generators.picture.flow import flow_svg
    from dragoman.language.generators.picture.mermaid import flow_mermaid, system_mermaid
    from dragoman.language.generators.picture.system import system_svg

    model = _checked(file)
    if flow is None:
        _write(system_svg(model) if form is Picture.SVG else system_mermaid(model), output)
        return
    if flow not in model.flows:
        raise ConfigurationError(
            f"The model has no flow {flow!r}.",
            code="language.flow",
            next=f"It has: {', '.join(model.flows) or 'none'}.",
        )
    _write((flow_svg if form is Picture.SVG else flow_mermaid)(model.flows[flow]), output)


@app.command()
def schema(
    file: File,
    type: Annotated[str | None, typer.Argument(help="A data type; without it all of them.")] = None,
    form: Annotated[
        SchemaLanguage, typer.Option("--format", "-f", help="The schema language.")
    ] = SchemaLanguage.AVRO,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file for one type, a folder for all.")
    ] = None,
) -> None:
    """Write data types as Avro, JSON Schema, Protobuf or Thrift.

    Example: dragoman model schema loan-broker.mdsl LoanRequestDto --format protobuf
    """
    from dragoman.language.generators.schemas import FORMATS
    from dragoman.language.generators.schemas import schema as written

    model = _checked(file)
    if type is not None:
        _write(written(model, type, form.value), output)
        return
    if output is None:
        raise ConfigurationError(
            "All data types need a folder to be written to.",
            code="language.folder",
            next="Name one with --output, or name one data type.",
        )
    with _writing(output):
        output.mkdir(parents=True, exist_ok=True)
    for name in model.types:
        _save(written(model, name, form.value), output / f"{name}.{FORMATS[form.value][0]}")
    typer.echo(f"{len(model.types)} schemas were written to {output}.")


@app.command()
def code(
    file: File,
    folder: Annotated[Path, typer.Argument(help="The folder of the Python package.")],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 if the code is stale.")
    ] = False,
) -> None:
    """Write a Python package: records, channels, and a controller and a test for each endpoint.

    Controllers and tests are written once and then yours; the rest is written anew each time.

    Example: dragoman model code loan-broker.mdsl loan_broker
    """
    from dragoman.language.generators.code import package, stale, write

    files = package(_checked(file), file.name)
    if check:
        with _writing(folder):
            found = stale(files, folder)
        for each in found:
            typer.echo(f"{folder / each.path}: {each.reason}")
        if found:
            raise typer.Exit(1)
        return
    with _writing(folder):
        written = write(files, folder)
    for path in written:
        typer.echo(f"{folder / path}")
    typer.echo(f"{len(written)} of {len(files)} files were written.")


Broker = Annotated[str | None, typer.Option(help="The broker's URL; without it the embedded one.")]
Registry = Annotated[str | None, typer.Option(help="The registry's URL; without it the embedded one.")]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--parameter", metavar="NAME=VALUE", help="For a parameter in paths; may be repeated."),
]
Discoveries = Annotated[
    list[str] | None,
    typer.Option(
        "--discovery",
        metavar="URL",
        help="Compare with a topology, too: etcd://host:2379 or file://path; may be repeated.",
    ),
]


@app.command("plan")
def plan_(
    file: File,
    broker: Broker = None,
    registry: Registry = None,
    parameter: Parameters = None,
    discovery: Discoveries = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show what `apply` would change. Exit 0: nothing; 1: something, also if it is refused or drift.

    Example: dragoman model plan loan-broker.mdsl --broker kafka://localhost:9092
    """
    from dragoman.cli.output import run

    changes = run(_compare(_checked(file), broker, registry, parameter, discovery, change=False))
    _print_changes(changes, as_json)
    if changes:
        raise typer.Exit(1)


@app.command("apply")
def apply_(
    file: File,
    broker: Broker = None,
    registry: Registry = None,
    parameter: Parameters = None,
    discovery: Discoveries = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Create channels and register contracts as the model says. Exit 1: refused, or drift is left.

    Example: dragoman model apply loan-broker.mdsl --broker kafka://localhost:9092
    """
    from dragoman.cli.output import run
    from dragoman.language.running.plan import Action

    changes = run(_compare(_checked(file), broker, registry, parameter, discovery, change=True))
    _print_changes(changes, as_json)
    if any(each.action in (Action.REFUSED, Action.DRIFT) for each in changes):
        raise typer.Exit(1)


async def _compare(
    model: Model,
    broker_url: str | None,
    registry_url: str | None,
    parameters: list[str] | None,
    discoveries: list[str] | None,
    *,
    change: bool,
) -> Sequence[Change]:
    from dragoman.client.connecting import open_broker, open_registry
    from dragoman.language.running.plan import apply, plan

    values = _values(parameters or ())
    announced = await _announced(discoveries) if discoveries else None
    broker, _ = open_broker(broker_url)
    await broker.connect()
    try:
        registry, _ = open_registry(registry_url)
        try:
            found = await plan(model, registry, broker, values, announced)
            if not change or found.refused:
                return found.changes
            return [*await apply(found, registry, broker), *found.drift]
        finally:
            await registry.close()
    finally:
        await broker.close()


def _values(given: Sequence[str]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not (name and equals and value):
            raise typer.BadParameter(f"{each!r} is not NAME=VALUE.")
        values.setdefault(name, []).append(value)
    return values


async def _announced(discoveries: list[str]) -> list[Endpoint]:
    from dragoman.cli.topology.options import topology_of

    async with topology_of(discoveries, 10.0) as topology:
        return list(topology.endpoints)


def _print_changes(changes: Sequence[Change], as_json: bool) -> None:
    from dragoman.cli.output import emit_table

    rows = [(each.action.value, each.target, each.detail) for each in changes]
    emit_table(("action", "target", "detail"), rows, as_json=as_json, empty="Nothing to change.")


def _checked(file: Path) -> Model:
    """The model, free of errors: else they are printed, and the command ends."""
    from dragoman.language.diagnostic import Severity
    from dragoman.language.lint import lint as check_all
    from dragoman.language.model import Model, read_model
    from dragoman.language.parser import parse

    parsed = parse(read_model(file), str(file))
    errors = [each for each in check_all(parsed) if each.severity is Severity.ERROR]
    if errors:
        _refuse(parsed, errors)
    return Model(parsed)


def _refuse(parsed: Parsed, errors: list[Diagnostic]) -> NoReturn:
    _print_diagnostics(parsed, errors, to_errors=True)
    raise typer.Exit(1 if parsed.ok else 2)


def _print_diagnostics(parsed: Parsed, found: list[Diagnostic], to_errors: bool = False) -> None:
    """One line each, in the form that editors and people can follow: file:line:column."""
    for each in found:
        place = parsed.source.place(each.span.start)
        # Only what parses is mended by --fix.
        fixable = " (fixable)" if each.fix and parsed.ok else ""
        where = f"{parsed.source.name}:{place.line}:{place.column}"
        typer.echo(f"{where}: {each.severity.word}: {each.message} [{each.rule}]{fixable}", err=to_errors)


def _print_json(value: object) -> None:
    import json

    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
    else:
        _save(text, output)


def _save(text: str, file: Path) -> None:
    with _writing(file):
        file.write_text(text, encoding="utf-8")


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    """What the file system refuses is told as one of our errors."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"The file cannot be written: {error.strerror}.",
            code="language.output",
            next="Name another place, or make room for this one.",
            file=error.filename or place,
        ) from error
