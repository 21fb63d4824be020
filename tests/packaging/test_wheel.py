"""The wheel in a bare environment is a working embedded platform, and a light one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dragoman.formats.avro.native import BUILT

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
LIMIT = 60 * 1024 * 1024


def done(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
    ended = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended


def run(*command: str | Path, cwd: Path) -> str:
    return done(*command, cwd=cwd).stdout


def built(folder: Path, **environment: str) -> tuple[Path, str]:
    """The wheel, and what was said while it was built."""
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    ended = done(*command, cwd=ROOT, **environment)
    [wheel] = folder.glob("*.whl")
    return wheel, ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, what it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    wheel, _ = built(folder / "dist")
    run(UV, "venv", "--python", sys.executable, folder / "venv", cwd=folder)
    # The versions that are locked, without their hashes, since the wheel has none.
    locked = [
        line.split()[0] for line in (ROOT / "requirements.lock").read_text().splitlines() if "==" in line
    ]
    (folder / "constraints.txt").write_text("\n".join(each.rstrip("\\").rstrip() for each in locked))
    python = folder / "venv" / "bin" / "python"
    run(UV, "pip", "install", "--python", python, "-c", folder / "constraints.txt", wheel, cwd=folder)
    return folder / "venv"


def test_the_dependencies_are_light(bare: Path) -> None:
    [packages] = (bare / "lib").glob("python*/site-packages")
    files = [each for each in packages.rglob("*") if each.is_file() and "__pycache__" not in each.parts]
    others = [each for each in files if not each.relative_to(packages).parts[0].startswith("dragoman")]
    assert sum(each.stat().st_size for each in others) < LIMIT


def test_contracts_and_messages_work_without_extras(bare: Path, tmp_path: Path) -> None:
    dragoman = bare / "bin" / "dragoman"
    schema = {"type": "record", "name": "Loan", "fields": [{"name": "amount", "type": "int"}]}
    (tmp_path / "loan.avsc").write_text(json.dumps(schema))
    run(dragoman, "registry", "register", "loans-value", "loan.avsc", cwd=tmp_path)
    run(dragoman, "channel", "create", "loans", cwd=tmp_path)
    run(dragoman, "channel", "publish", "loans", '{"amount": 7}', cwd=tmp_path)
    assert '"amount": 7' in run(dragoman, "channel", "tail", "loans", "--json", "--limit", "1", cwd=tmp_path)
    states = {
        each["check"]: each["state"] for each in json.loads(run(dragoman, "doctor", "--json", cwd=tmp_path))
    }
    assert (states["embedded://"], states["kafka://"], states["Spark"]) == ("ok", "absent", "absent")
    assert states["native codecs"] == ("ok" if BUILT else "absent")


@pytest.mark.parametrize(
    ("environment", "why"),
    [({"DRAGOMAN_PURE": "1"}, "DRAGOMAN_PURE is set"), ({"CC": "false"}, "the C compiler said")],
)
def test_without_a_compiler_the_wheel_is_pure(tmp_path: Path, environment: dict[str, str], why: str) -> None:
    wheel, said = built(tmp_path, **environment)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert why in said
    with zipfile.ZipFile(wheel) as files:
        assert not [name for name in files.namelist() if name.endswith((".so", ".c", ".pyx"))]


def test_importing_it_loads_nothing_heavy(bare: Path, tmp_path: Path) -> None:
    heavy = "numpy, pyarrow, pyspark, fastapi, pydantic, rich, typer"
    code = f"import dragoman, sys; assert not set('{heavy}'.split(', ')) & set(sys.modules)"
    run(bare / "bin" / "python", "-c", code, cwd=tmp_path)


def test_the_demo_finds_the_loan_broker(bare: Path, tmp_path: Path) -> None:
    code = "from dragoman.cli.demo.places import loan_broker, model; loan_broker('bank1'); print(model())"
    found = Path(run(bare / "bin" / "python", "-c", code, cwd=tmp_path).strip())
    assert found.is_relative_to(bare)
    assert run(bare / "bin" / "dragoman", "model", "lint", found, cwd=tmp_path) is not None
