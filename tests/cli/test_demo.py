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


def test_every_message_of_the_demo_is_accounted_for_and_in_a_table(tmp_path: Path, spark: Any) -> None:
    done = dragoman("demo", "--folder", str(tmp_path), "--messages", "1000")
    assert done.returncode == 0, done.stdout + done.stderr
    found = counts(done.stdout)
    assert found["sent"] == 1000
    assert found["lost"] == 0
    handled = found["handled and answered"]
    dead = found["refused by the handler, in the dead letters"]
    invalid = found["unreadable, in the invalid-message channel"]
    assert (handled + dead + invalid, dead, invalid) == (1000, 2, 4)
    assert found["loan_broker_request"] == handled + dead
    assert found["loan_broker_request_quarantine"] == invalid
    assert "consumer-1 is killed" in done.stdout
    commands = [line.strip() for line in done.stdout.splitlines() if line.startswith("  dragoman ")]
    assert len(commands) == 4
    for command in commands:
        again = dragoman(*shlex.split(command)[1:], "--json")
        assert again.returncode == 0, f"{command}:\n{again.stderr}"
        assert again.stdout.strip()
