"""The demo does what the README says it does."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any


def dragoman(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dragoman.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def counts(output: str) -> dict[str, int]:
    rows = [line.rsplit(maxsplit=1) for line in output.splitlines() if line.strip()]
    return {row[0].strip(): int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def test_the_whole_story_is_told_and_its_numbers_add_up(tmp_path: Path, spark: Any) -> None:
    done = dragoman("demo", "--folder", str(tmp_path), "--requests", "300")
    assert done.returncode == 0, done.stdout + done.stderr
    found = counts(done.stdout)
    assert found["sent"] == 320
    assert found["lost"] == 0
    assert found["quoted, and collected by the customer"] == 294
    assert found["expired before they were handled"] == 3
    assert found["refused by the loan broker, in the dead letters"] == 3
    assert found["unreadable, in the invalid-message channel"] == 20
    again = found["asked a second time while a process was replaced"]
    assert found["loan_broker_request"] + found["loan_broker_request_quarantine"] == 320 + again
    assert found["loan_broker_request_quarantine"] >= 23
    for said in ("no findings", "Bank2 is killed", "is refused: The reader's field currency", "version 2"):
        assert said in " ".join(done.stdout.split())
    commands = [line.strip() for line in done.stdout.splitlines() if line.startswith("  dragoman ")]
    assert len(commands) == 4
    for command in commands:
        looked = dragoman(*shlex.split(command)[1:])
        assert looked.returncode == 0, f"{command}:\n{looked.stderr}"
    assert (tmp_path / "loan-broker.svg").read_text().startswith("<svg")
