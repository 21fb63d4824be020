"""The help of each command has an example, and the command takes it."""

from __future__ import annotations

import inspect
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from dragoman.cli import COMMANDS, NOUNS, application


class Leaf(NamedTuple):
    words: tuple[str, ...]
    command: Any


def leaves(command: Any, *words: str) -> Iterator[Leaf]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield Leaf(words, command)
        return
    for word, each in inner.items():
        yield from leaves(each, *words, word)


def everything() -> Iterator[Leaf]:
    for word in (*NOUNS, *COMMANDS):
        program: Any = typer.main.get_command(application([word]))
        yield from leaves(program.commands[word], word)


@pytest.mark.parametrize("leaf", list(everything()), ids=lambda leaf: " ".join(leaf.words))
def test_each_command_shows_an_example_that_it_takes(
    leaf: Leaf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    about, _, example = inspect.cleandoc(leaf.command.help or "").partition("Example: ")
    assert about.strip()
    given = [word for word in shlex.split(example) if not word.startswith("DRAGOMAN_")]
    count = len(leaf.words) + 1
    assert tuple(given[:count]) == ("dragoman", *leaf.words)
    # It reads the arguments, and does nothing yet.
    leaf.command.make_context(leaf.words[-1], given[count:])


def test_the_help_of_the_program_names_every_noun_without_loading_them() -> None:
    code = (
        "import sys; from dragoman.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*(name for name in sys.modules if name.startswith('dragoman.')), file=sys.stderr)"
    )
    clean = {name: value for name, value in os.environ.items() if name != "_DRAGOMAN_COMPLETE"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean, capture_output=True, text=True, check=True, timeout=120
    )
    for word in (*NOUNS, *COMMANDS):
        assert f"  {word} " in done.stdout
    loaded = {name.split(".")[1] for name in done.stderr.split()}
    assert loaded <= {"cli", "core"}
