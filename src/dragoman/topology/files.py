"""Property files: ``pubsub/<topic>.pub`` and ``.sub``, per admin ``.kafkapub``, ``.kafkasub`` and so on."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from importlib.resources import files as resources
from importlib.resources.abc import Traversable
from pathlib import Path

from dragoman.core.errors import ConfigurationError
from dragoman.topology.topic import Role, Topic

FOLDER = "pubsub"

Place = str | Path
"""A folder, or the name of a package."""

Line = tuple[str, str, str]
"""Name, value, and where it stands."""


def beside_the_program() -> list[Traversable]:
    """The folder of the program that runs, and the one it was started in. They need not exist."""
    program = Path(sys.argv[0] or ".").absolute().parent
    return list(dict.fromkeys((program / FOLDER, Path.cwd() / FOLDER)))


def folders(places: Iterable[Place]) -> list[Traversable]:
    """A path is a folder of property files; a name is a package that has a folder ``pubsub``."""
    return [_folder(each) if isinstance(each, Path) else _in_package(each) for each in places]


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise ConfigurationError(
            f"There is no folder {path}.",
            code="topology.folder",
            next="Name the folder that holds the files.",
        )
    return path


def _in_package(package: str) -> Traversable:
    try:
        return resources(package) / FOLDER
    except (ImportError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"There is no package {package!r}.",
            code="topology.package",
            next="Name the package that holds the folder 'pubsub'; a folder itself is given as a Path.",
        ) from error


def lines_for(topic: Topic, role: Role, admin: str, where: Iterable[Traversable]) -> Iterator[Line]:
    """What the files say, later ones over earlier ones. The first folder that has a file provides it."""
    where = list(where)
    for extension in dict.fromkeys((role.short, admin + role.short)):
        for name in dict.fromkeys((topic.key, topic.name)):
            found = next((each for each in where if (each / f"{name}.{extension}").is_file()), None)
            if found is not None:
                file = found / f"{name}.{extension}"
                yield from parse(_text(file), str(file))
                break


def _text(file: Traversable) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"The properties cannot be read: {error}",
            code="topology.file",
            next="It is a text file in UTF-8.",
            file=str(file),
        ) from error


def parse(text: str, name: str) -> Iterator[Line]:
    """``key = value`` or ``key: value`` a line; ``#`` and ``!`` begin comments; a last ``\\`` joins lines."""
    pending, first = "", 0
    for number, raw in enumerate((*text.splitlines(), ""), 1):
        line = raw.strip()
        if not pending and line[:1] in ("", "#", "!"):
            continue
        first = first or number
        if line.endswith("\\"):
            pending += line[:-1]
            continue
        line, pending, at, first = pending + line, "", first, 0
        yield (*_pair(line, name, at), f"{name}:{at}")


def _pair(line: str, name: str, number: int) -> tuple[str, str]:
    places = [place for place in (line.find("="), line.find(":")) if place > 0]
    if not places:
        raise ConfigurationError(
            f"{line[:60]!r} is not a property.",
            code="topology.file",
            next="Write it as name = value.",
            file=name,
            line=number,
        )
    split = min(places)
    return line[:split].strip(), line[split + 1 :].strip()
