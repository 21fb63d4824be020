"""``python -m tests.run`` runs all tests, in three processes side by side.

One process works with Spark and etcd, one mostly waits for brokers, one computes. A test that fails is run
once more, alone, after all others. If it passes then, it is reported as ``flaky: NAME`` and the run stays
green. More than two flaky tests fail the run, and so does all that is not a failed test: a process that
crashes, hangs, stops early or cannot collect its tests.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tests.outcomes import VARIABLE, Outcomes, read_outcomes

FLAKY_MAX = 2
RERUN_MAX = 10
"""With more failures than this the run is red whatever a second try says."""
RERUN_TIMEOUT_S = 900

SPARK = ("tests/pipeline", "tests/demo", "tests/topology", "tests/services")
WAITING = ("tests/brokers", "tests/soak", "tests/client")
GROUPS = (
    SPARK,
    ("-p", "no:cacheprovider", *WAITING),
    ("-p", "no:cacheprovider", *(f"--ignore={folder}" for folder in SPARK + WAITING), "tests"),
)
SESSION = ("--session-timeout=3000",)


@dataclass
class Process:
    """One pytest process. The first writes to the terminal, the others to a file that is shown at the end."""

    popen: subprocess.Popen[bytes]
    outcomes: Path
    log: Path | None

    def finish(self) -> Outcomes | None:
        """What it recorded; none if it did not run to its end."""
        code = self.popen.wait()
        outcomes = read_outcomes(self.outcomes)
        explained = code == 0 or (code == 1 and outcomes.failed)
        return outcomes if explained and outcomes.is_complete else None


def run(groups: Sequence[Sequence[str]] = GROUPS) -> int:
    folder = Path(tempfile.mkdtemp())
    processes: list[Process] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        for index, arguments in enumerate(groups):
            processes.append(_start(arguments, folder, index, hidden=index > 0))
        finished = [process.finish() for process in processes]
        _show(processes)
        failed = [name for outcomes in finished if outcomes for name in outcomes.failed]
        return _judge(failed, folder, broken=finished.count(None))
    except SystemExit:
        for process in processes:
            process.popen.terminate()
        for process in processes:
            process.popen.wait()
        _show(processes)
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    # Not here: the main thread may hold the lock of the process that this would wait for.
    raise SystemExit(128 + number)


def _start(arguments: Sequence[str], folder: Path, index: int, *, hidden: bool) -> Process:
    outcomes, log = folder / f"outcomes-{index}", folder / f"log-{index}" if hidden else None
    command = [sys.executable, "-m", "pytest", "-p", "tests.outcomes", *SESSION, *arguments]
    environment = {**os.environ, VARIABLE: str(outcomes)}
    if log is None:
        return Process(subprocess.Popen(command, env=environment), outcomes, None)
    with log.open("wb") as output:
        popen = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    return Process(popen, outcomes, log)


def _show(processes: Sequence[Process]) -> None:
    sys.stdout.flush()
    for process in processes:
        if process.log is not None:
            sys.stdout.buffer.write(process.log.read_bytes())
    sys.stdout.flush()


def _judge(failed: Sequence[str], folder: Path, *, broken: int) -> int:
    flaky = [name for name in failed[:RERUN_MAX] if _passes_alone(name, folder)]
    for name in failed:
        print(f"flaky: {name}" if name in flaky else f"failed: {name}")
    if broken:
        print(f"{broken} of the test processes did not run to their end.")
    if len(flaky) > FLAKY_MAX:
        print(f"{len(flaky)} tests are flaky, and {FLAKY_MAX} at most are let through.")
    sys.stdout.flush()
    return 1 if broken or len(flaky) > FLAKY_MAX or len(flaky) < len(failed) else 0


def _passes_alone(name: str, folder: Path) -> bool:
    """Run a test once more. A test that is skipped then has not passed."""
    outcomes = Path(tempfile.mkstemp(dir=folder)[1])
    print(f"Once more, alone: {name}", flush=True)
    command = [sys.executable, "-m", "pytest", "-p", "tests.outcomes", "-p", "no:cacheprovider", name]
    try:
        done = subprocess.run(
            command, env={**os.environ, VARIABLE: str(outcomes)}, timeout=RERUN_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and name in read_outcomes(outcomes).passed


if __name__ == "__main__":
    sys.exit(run())
