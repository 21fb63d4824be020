"""How readers are told to install Dragoman: from what they have, never by a name on an index."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from dragoman.core import loading
from dragoman.core.errors import ExtraMissing
from dragoman.core.extras import extra_missing, installation
from dragoman.core.loading import BROKERS, load

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = frozenset(PROJECT["optional-dependencies"])

BY_NAME = re.compile(
    r"""
    \b(?:pip[\d.]*|pipx|uv|poetry|pdm|conda|mamba)\b\s   # an installer,
    [^`;&|]{0,80}?\b(?:install|add|download|wheel)\b     # its command,
    [^`;&|]{0,80}?(?<![\w./-])dragoman(?![\w/.-]*[\w/])  # and the bare name, with or without extras;
    | \buvx\s+(?:-\S+\s+)*dragoman\b                     # or a program that is fetched to be run;
    | (?<![\w./-])dragoman\[                             # or a requirement, in a table or a file.
    """,
    re.VERBOSE,
)


PLACES = ("src", "docs", "examples", "editors", "deploy", "scripts", "benchmarks")
MADE = frozenset({"node_modules", "__pycache__"})


def texts() -> Iterator[tuple[str, str]]:
    """All that is read or run by people: the files of the root, and those of its folders."""
    files = [*ROOT.glob("*.md"), ROOT / "Dockerfile", ROOT / "Makefile", ROOT / "compose.yaml"]
    files += [path for place in PLACES for path in (ROOT / place).rglob("*")]
    for path in files:
        if path.is_file() and not MADE.intersection(path.parts):
            try:
                yield path.relative_to(ROOT).as_posix(), path.read_text()
            except UnicodeDecodeError:
                continue


@pytest.mark.parametrize(
    "text",
    [
        "pip install dragoman",
        "pip install 'dragoman[spark]'",
        'Run: pip install "dragoman[{extra}]"',
        "python -m pip install --upgrade dragoman==0.1",
        "pip3 install \\\n    dragoman",
        "pip install venv-pack dragoman",
        "pipx install dragoman",
        "uv pip install dragoman>=1",
        "uv add dragoman",
        "uv tool install dragoman",
        "uvx dragoman demo",
        "poetry add dragoman",
        "| `kafka://` | Kafka | `dragoman[kafka]` |",
        "dragoman[spark]>=0.1",
    ],
)
def test_an_installation_by_name_is_seen(text: str) -> None:
    assert BY_NAME.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install '.[spark]'",
        "pip install './WHEEL_FILE[kafka]'",
        "`pip install .` in a clone; then `dragoman doctor`",
        "pip install . && dragoman doctor",
        "pip install dist/dragoman-0.1.0-py3-none-any.whl",
        "pip install dragoman-0.1.0-py3-none-any.whl",
        "code --install-extension dragoman-mdsl-0.1.0.vsix",
        "pip install '.[lsp]'. Or set dragoman.command.",
    ],
)
def test_an_installation_from_what_one_has_is_not(text: str) -> None:
    assert not BY_NAME.search(text)


def test_nothing_tells_readers_to_install_a_name_from_an_index() -> None:
    read = dict(texts())
    assert {"README.md", "docs/pipeline.md", "src/dragoman/core/loading.py"} <= read.keys()
    assert [f"{name}: {match[0]}" for name, text in read.items() for match in BY_NAME.finditer(text)] == []


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_a_hint_installs_from_the_source_or_a_wheel(extra: str) -> None:
    hint = installation(extra)
    assert f"pip install '.[{extra}]'" in hint
    assert "wheel" in hint
    assert extra_missing("This", "that", extra).next == hint


def test_hints_name_extras_that_exist() -> None:
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                called = {"extra_missing": 2, "_package": 2, "installation": 0}.get(node.func.id)
                if called is not None and isinstance(argument := node.args[called], ast.Constant):
                    named.add(argument.value)
    assert {"spark", "lsp", "redis", "gateway", "observability"} <= named <= EXTRAS


def test_only_one_place_writes_the_hint() -> None:
    places = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src").rglob("*.py")
        if re.search(r"pip install", path.read_text())
    }
    assert places == {"dragoman/core/extras.py"}


@pytest.mark.parametrize(
    ("scheme", "driver", "extra"),
    [
        ("kafka", "confluent_kafka", "kafka"),
        ("rabbitmq", "aio_pika", "rabbitmq"),
        ("nats", "nats", "nats"),
        ("redis", "redis", "redis"),
        ("rediss", "redis", "redis"),
    ],
)
def test_a_broker_without_its_driver_tells_how_to_get_it(
    scheme: str, driver: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(self: EntryPoint) -> None:
        raise ModuleNotFoundError(f"No module named {driver!r}", name=driver)

    load.cache_clear()
    monkeypatch.setattr(EntryPoint, "load", missing)
    with pytest.raises(ExtraMissing) as caught:
        load(BROKERS, scheme)
    assert caught.value.what == f"{scheme!r} needs the package {driver!r}."
    assert caught.value.next == installation(extra)


def test_the_driver_of_another_packages_broker_is_not_an_extra_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shelf-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[dragoman.brokers]\nshelf = shelf:ShelfBroker\n")
    (tmp_path / "shelf.py").write_text("import planks_that_are_missing\n")
    monkeypatch.syspath_prepend(tmp_path)
    loading.load.cache_clear()
    with pytest.raises(ExtraMissing) as caught:
        load(BROKERS, "shelf")
    sys.modules.pop("shelf", None)
    assert "planks_that_are_missing" in caught.value.what
    assert "'shelf'" in caught.value.next
    assert "pip install" not in caught.value.next
