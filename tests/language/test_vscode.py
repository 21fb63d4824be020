"""The extension for Visual Studio Code: complete, installable, and knowing all words."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from dragoman.language.parsing.cursor import GRAMMAR
from tests.language import ebnf
from tests.language.node import installed

EXTENSION = Path(__file__).parents[2] / "editors" / "vscode"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    modules = installed(EXTENSION) / "node_modules"
    return Path(_pack().pack(modules, tmp_path_factory.mktemp("vsix")))


def _pack() -> ModuleType:
    spec = spec_from_file_location("pack", EXTENSION / "pack.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_package_holds_what_an_editor_needs(package: Path) -> None:
    with zipfile.ZipFile(package) as archive:
        names = set(archive.namelist())
        about = json.loads(archive.read("extension/package.json"))
        manifest = archive.read("extension.vsixmanifest").decode()
    assert {
        "[Content_Types].xml",
        "extension.vsixmanifest",
        "extension/extension.js",
        "extension/LICENSE",
    } <= names
    assert f"extension/{about['main'].removeprefix('./')}" in names
    for contributed in (*about["contributes"]["grammars"], *about["contributes"]["languages"]):
        path = contributed.get("path") or contributed.get("configuration")
        assert f"extension/{path.removeprefix('./')}" in names
    assert "extension/node_modules/vscode-languageclient/package.json" in names
    assert f'Id="{about["name"]}" Version="{about["version"]}"' in manifest


def test_the_extension_starts_the_server_and_stops_it(package: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(package) as archive:
        archive.extractall(tmp_path)
    folder = tmp_path / "extension"
    fake = folder / "node_modules" / "vscode"
    fake.mkdir()
    # The editor itself gives this module; here it has just what the extension asks for.
    fake.joinpath("index.js").write_text(
        "module.exports = { workspace: { getConfiguration: () => ({ get: () => ['dragoman', 'lsp'] }) } };"
    )
    client = folder / "node_modules" / "vscode-languageclient" / "node.js"
    client.write_text(
        "module.exports = { LanguageClient: class { constructor(...given) { this.given = given; }"
        " async start() { console.log(JSON.stringify(this.given[2])); }"
        " async stop() { console.log('stopped'); } } };"
    )
    script = "const e = require('./extension.js'); e.activate({subscriptions: []}).then(() => e.deactivate())"
    done = subprocess.run(
        ["node", "-e", script], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines() == ['{"command":"dragoman","args":["lsp"]}', "stopped"], done.stderr


def test_highlighting_knows_every_word_of_the_grammar() -> None:
    grammar = json.loads((EXTENSION / "syntaxes" / "mdsl.tmLanguage.json").read_text())
    patterns = json.dumps(grammar["repository"])
    known = set(re.findall(r"[A-Za-z_][A-Za-z0-9_-]*", patterns))
    words = {word for name in GRAMMAR for word in ebnf.words_of(ebnf.rules()[name])}
    missing = {word for word in words if re.fullmatch(r"[A-Za-z_][\w-]*", word)} - known
    assert not missing
