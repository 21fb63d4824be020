"""Packages from npm, installed once into a cache of the user's, and the official AsyncAPI parser."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parent / "asyncapi_parser"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dragoman"


def absent(what: str) -> None:
    """Skip at home, fail where all services are promised."""
    if os.environ.get("DRAGOMAN_REQUIRE_SERVICES") == "1":
        pytest.fail(f"{what} is needed, and DRAGOMAN_REQUIRE_SERVICES=1 says it is here.")
    pytest.skip(f"{what} is not here.")


def installed(project: Path = PROJECT) -> Path:
    """A folder with the packages of a Node project, as its lock file has them."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        absent("Node with npm")
    digest = hashlib.sha256((project / "package-lock.json").read_bytes()).hexdigest()[:16]
    folder = CACHE / f"{project.name}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(project / name, folder / name)
            command = [str(npm), "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=5"]
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=600, check=False
            )
            if done.returncode:
                absent(f"The package index of npm ({done.stderr[-500:]})")
            (folder / "complete").touch()
    return folder


def official(files: Sequence[Path]) -> dict[Path, dict[str, Any]]:
    """What the official parser says of these documents: errors, and the operations it reads."""
    command = ["node", str(PROJECT / "check.mjs"), str(installed()), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    return {Path(name): result for name, result in results.items()}
