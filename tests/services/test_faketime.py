"""A stepped clock: its process sees the steps, the monotonic clock and waits do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.services.faketime import SteppedClock
from tests.services.fixtures import missing
from tests.services.server import ServiceUnavailable

# It prints the difference between the wall clock and the monotonic one whenever it is told to.
PROGRAM = """
import sys, threading, time
for line in sys.stdin:
    threading.Event().wait(0.01)
    print(time.time() - time.monotonic(), flush=True)
"""


def test_a_process_sees_its_clock_step(tmp_path: Path) -> None:
    try:
        clock = SteppedClock(tmp_path / "clock")
    except ServiceUnavailable as unavailable:
        missing(str(unavailable))
    command = [sys.executable, "-c", PROGRAM]
    environment = {**os.environ, **clock.environment}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def difference() -> int:
            process.stdin.write("tell\n")
            process.stdin.flush()
            return round(float(process.stdout.readline()))

        begun = difference()
        for step in (3600, -86_400, 0):
            clock.step(step)
            # The file is read once a second: the test runs into its time limit if the step never comes.
            while abs(difference() - begun - step) > 60:
                pass
        process.stdin.close()
