"""A Python package from a model: records, channels, a program, and controllers and tests to fill in.

Files that were generated are written anew each time; those to fill in are written once, and never again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dragoman.core.errors import ConfigurationError
from dragoman.language.generators.code.channels import channels_module
from dragoman.language.generators.code.controllers import (
    controller_module,
    handlers,
    module_name,
    test_module,
)
from dragoman.language.generators.code.program import program_module
from dragoman.language.generators.code.records import records_module
from dragoman.language.model import Model

_GENERATED = "Generated from"
"""Stands in the first line of each file that is written anew."""


@dataclass(frozen=True, slots=True)
class File:
    path: str
    text: str
    once: bool
    """Written once, then the user's."""
    handlers: tuple[str, ...] = ()
    """The functions that it must have."""


@dataclass(frozen=True, slots=True)
class Stale:
    path: str
    reason: str


def package(model: Model, source: str) -> list[File]:
    """The files of the package. ``source`` is the name of the model's file, for their headers."""
    files = [
        File("__init__.py", f'"""{_GENERATED} {source}; endpoints are in modules of their own."""\n', False),
        File("records.py", records_module(model, source), False),
        File("channels.py", channels_module(model, source), False),
    ]
    if model.endpoints:
        files.append(File("__main__.py", program_module(model, source), True))
        files.append(File("tests/__init__.py", "", True))
    for name in model.endpoints:
        files.append(
            File(f"{module_name(name)}.py", controller_module(model, name), True, handlers(model, name))
        )
        files.append(File(f"tests/test_{module_name(name)}.py", test_module(model, name), True))
    return files


def write(files: list[File], folder: Path) -> list[str]:
    """Write what is new or changed; the paths that were written.

    Raises ``ConfigurationError``, before anything is written, if that would replace somebody's own file.
    """
    changed = [file for file in files if _changed(file, folder / file.path)]
    for file in changed:
        target = folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.text, encoding="utf-8")
    return [file.path for file in changed]


def _changed(file: File, target: Path) -> bool:
    if not target.exists():
        return True
    text = _read(target)
    if file.once or text == file.text:
        return False
    if text and _GENERATED not in text.split("\n", 1)[0]:
        raise ConfigurationError(
            "There is a file of this name that was not generated.",
            code="language.foreign-file",
            next="Name another folder, or move the file away. Nothing was written.",
            file=target,
        )
    return True


def _read(target: Path) -> str:
    # What is not UTF-8 is not ours, and only looked at.
    return target.read_text(encoding="utf-8", errors="replace")


def stale(files: list[File], folder: Path) -> list[Stale]:
    """What no longer fits the model: generated files that differ, and handlers that are missing."""
    found = []
    for file in files:
        target = folder / file.path
        if not target.exists():
            # What is the user's may be gone; an endpoint that should handle messages may not.
            found += [Stale(file.path, "It is missing.")] if not file.once or file.handlers else []
            continue
        text = _read(target)
        if not file.once and text != file.text:
            found.append(Stale(file.path, "It was generated from another version of the model."))
        missing = [name for name in file.handlers if f"def {name}(" not in text]
        if missing:
            found.append(Stale(file.path, f"It has no {', '.join(missing)}."))
    return found
