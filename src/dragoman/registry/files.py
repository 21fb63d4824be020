"""Schema files: which contract each belongs to, and of which type it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.core.errors import ConfigurationError
from dragoman.core.schema import Reference, Schema
from dragoman.registry.directory import SUFFIXES, read_directory

TYPES = {suffix: type for type, suffix in SUFFIXES.items()}


@dataclass(frozen=True, slots=True)
class SchemaFile:
    path: Path
    contract: str
    schema: Schema


def find_files(paths: Sequence[Path], contract: str | None = None) -> list[SchemaFile]:
    """All schema files among the paths and below them.

    A file is named after its contract: ``orders-value.avsc``. In the directory of an export, the newest
    version of each contract counts. ``contract`` names the contract of a single file outright.
    """
    found = [each for path in paths for each in _below(path)]
    if contract is None:
        return found
    if len(found) != 1:
        raise ConfigurationError(f"One file can be checked for '{contract}', not {len(found)}.")
    return [SchemaFile(found[0].path, contract, found[0].schema)]


def read_file(path: Path, contract: str | None = None, references: Sequence[Reference] = ()) -> SchemaFile:
    type = TYPES.get(path.suffix.lower())
    if type is None:
        raise ConfigurationError(
            f"{path.name} does not look like a schema.", next=f"Known are {', '.join(sorted(TYPES))}."
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}.") from error
    return SchemaFile(path, contract or path.stem, Schema(type, text, tuple(references)))


def parse_reference(text: str) -> Reference:
    """``NAME=CONTRACT@VERSION``."""
    name, equals, target = text.partition("=")
    contract, at, version = target.rpartition("@")
    if not (name and equals and contract and at and version.isdigit()):
        raise ConfigurationError(
            f"{text!r} is not a reference.",
            next="Write NAME=CONTRACT@VERSION, such as shop.Customer=customer@1.",
        )
    return Reference(name, contract, int(version))


def _below(path: Path) -> Iterator[SchemaFile]:
    if path.is_file():
        yield read_file(path)
    elif (path / "registry.json").is_file():
        yield from _exported(path)
    elif path.is_dir():
        for each in sorted(path.rglob("*")):
            if each.is_file() and each.suffix.lower() in TYPES:
                yield read_file(each)
    else:
        raise ConfigurationError(
            f"There is no file or directory {path}.", next="Name schema files, or directories of them."
        )


def _exported(path: Path) -> Iterator[SchemaFile]:
    for contract in read_directory(path).contracts:
        live = [version for version in contract.versions if not version.deleted]
        if live:
            newest = max(live, key=lambda version: version.version)
            references = tuple(
                Reference(each.name, each.contract, each.version) for each in newest.references
            )
            schema = Schema(newest.type, newest.schema, references)
            yield SchemaFile(path / "contracts" / contract.name, contract.name, schema)
