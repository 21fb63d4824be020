"""``dragoman registry check``: what would be refused, before it is merged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.output import Json, answer_no, emit_json, run, say
from dragoman.cli.registry.options import RegistryUrl, Token, opened
from dragoman.core.contract import Incompatibility
from dragoman.core.errors import InvalidSchema
from dragoman.core.registry import Registry

if TYPE_CHECKING:
    from dragoman.registry.files import SchemaFile


@dataclass(frozen=True, slots=True)
class Outcome:
    file: str
    contract: str
    accepted: bool
    version: int | None = None
    reasons: tuple[Incompatibility, ...] = ()


def check(
    paths: Annotated[list[Path], typer.Argument(help="Schema files, or directories of them.")],
    contract: Annotated[str | None, typer.Option(help="The contract of a single file.")] = None,
    reference: Annotated[list[str] | None, typer.Option(help="NAME=CONTRACT@VERSION, for one file.")] = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Order what has no order first.")] = False,
    registry: RegistryUrl = None,
    token: Token = None,
    as_json: bool = Json,
) -> None:
    """Say which schemas would be refused. Changes nothing; fit for pre-commit and CI.

    A file is named after its contract: orders-value.avsc. Exit code 1 if anything would be refused.

    Example: dragoman registry check schemas/ --registry http://localhost:8081
    """
    from dragoman.registry.files import find_files, parse_reference, read_file

    if reference:
        if len(paths) != 1 or not paths[0].is_file():
            raise typer.BadParameter("--reference goes with one file.")
        found = [read_file(paths[0], contract, [parse_reference(text) for text in reference])]
    else:
        found = find_files(paths, contract)

    async def work(files: list[SchemaFile]) -> list[Outcome]:
        async with opened(registry, token) as opened_registry:
            return [await _judged(opened_registry, each, normalize) for each in files]

    outcomes = run(work(found))
    refused = [each for each in outcomes if not each.accepted]
    if as_json:
        emit_json([_value(each) for each in outcomes])
    else:
        for each in outcomes:
            _tell(each)
        say(f"{len(outcomes) - len(refused)} of {len(outcomes)} would be accepted.")
    if refused:
        answer_no()


async def _judged(registry: Registry, file: SchemaFile, normalize: bool) -> Outcome:
    try:
        verdict = await registry.check(file.contract, file.schema, normalize=normalize)
    except InvalidSchema as error:
        reason = Incompatibility("INVALID_SCHEMA", str(error))
        return Outcome(str(file.path), file.contract, False, None, (reason,))
    return Outcome(str(file.path), file.contract, verdict.compatible, verdict.version, verdict.reasons)


def _tell(outcome: Outcome) -> None:
    if outcome.accepted:
        say(f"ok      {outcome.file} for {outcome.contract}")
        return
    against = f", version {outcome.version}" if outcome.version else ""
    say(f"refused {outcome.file} for {outcome.contract}{against}")
    for reason in outcome.reasons:
        place = f" at {reason.reader_path}" if reason.reader_path else ""
        say(f"        {reason.rule}{place}: {reason.message}")
        if reason.counterexample:
            say(f"        for example: {reason.counterexample}")


def _value(outcome: Outcome) -> dict[str, object]:
    return {
        "file": outcome.file,
        "contract": outcome.contract,
        "accepted": outcome.accepted,
        "version": outcome.version,
        "reasons": [
            {
                "rule": reason.rule,
                "message": reason.message,
                "readerPath": reason.reader_path,
                "writerPath": reason.writer_path,
                "counterexample": reason.counterexample,
            }
            for reason in outcome.reasons
        ],
    }
