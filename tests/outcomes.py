"""A pytest plugin that records which tests passed and failed, for ``tests.run``.

Loaded with ``-p tests.outcomes``. ``DRAGOMAN_OUTCOMES`` names the file. Each line is JSON.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

VARIABLE = "DRAGOMAN_OUTCOMES"


@dataclass
class Outcomes:
    """What one pytest process recorded."""

    passed: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    is_complete: bool = False
    """Whether the session ran to its end. A session that stops early leaves tests out."""


def read_outcomes(path: Path) -> Outcomes:
    outcomes = Outcomes()
    # A process that dies while it writes leaves half a line behind, and is not complete.
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        name = record.get("test")
        if record["outcome"] == "complete":
            outcomes.is_complete = True
        elif record["outcome"] == "passed":
            outcomes.passed.add(name)
        elif name not in outcomes.failed:
            outcomes.failed.append(name)
    outcomes.passed.difference_update(outcomes.failed)
    return outcomes


def _record(outcome: str, test: str | None = None) -> None:
    with Path(os.environ[VARIABLE]).open("a") as file:
        file.write(json.dumps({"outcome": outcome, "test": test}) + "\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test that fails in its set-up or tear-down has failed, too."""
    if report.failed:
        _record("failed", report.nodeid)
    elif report.passed and report.when == "call":
        _record("passed", report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if not session.shouldstop and not session.shouldfail and exitstatus in (0, 1):
        _record("complete")
