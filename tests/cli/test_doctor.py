"""The doctor tells what is there, what is missing, and what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from dragoman.formats.avro.native import BUILT


def doctor(folder: Path, *arguments: str, **environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    command = [sys.executable, "-m", "dragoman.cli", "doctor", "--json", *arguments]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
    done = subprocess.run(
        command, cwd=folder, env={**clean, **environment}, capture_output=True, text=True, check=False
    )
    return done.returncode, {each["check"]: each for each in json.loads(done.stdout)}


def test_a_fresh_folder_is_in_order(tmp_path: Path) -> None:
    code, found = doctor(tmp_path)
    assert code == 0
    assert found["Python"]["state"] == found["embedded://"]["state"] == "ok"
    assert found["broker embedded://.dragoman"]["found"] == "0 channels"
    assert found["registry sqlite://.dragoman/registry.db"]["found"] == "0 contracts"


def test_native_codecs_can_be_switched_off(tmp_path: Path) -> None:
    _, found = doctor(tmp_path, DRAGOMAN_PURE="1")
    assert found["native codecs"]["state"] == "absent"
    assert found["native codecs"]["found"] == ("switched off" if BUILT else "not built")
    _, found = doctor(tmp_path)
    assert found["native codecs"]["state"] == ("ok" if BUILT else "absent")


def test_a_registry_that_is_away_is_wrong_and_java_may_be_absent(tmp_path: Path) -> None:
    code, found = doctor(
        tmp_path,
        "--registry",
        "http://user:secret@127.0.0.1:9",
        "--broker",
        "nosuch://x",
        JAVA_HOME=str(tmp_path),
    )
    assert code == 1
    assert found["registry http://user:***@127.0.0.1:9"]["state"] == "wrong"
    assert found["broker nosuch://x"]["what to do"]
    assert found["Java"]["state"] == "absent"
    assert "Java 17" in found["Java"]["what to do"]
