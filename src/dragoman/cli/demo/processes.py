"""The demo's processes: started, watched, killed, and none left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from dragoman.core.errors import DragomanError

PATIENCE = 120.0


class Processes:
    """Every process it started is gone when it is left."""

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        self._logs = logs
        self._environment = {**os.environ, **environment, "PYTHONUNBUFFERED": "1"}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        logs.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self, name: str, module: str, *arguments: str, **environment: str) -> None:
        with self._log(name).open("wb") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**self._environment, **environment},
            )

    def run(self, *arguments: str) -> str:
        """A command of ours, to its end. Returns what it printed."""
        done = self._command(arguments)
        if done.returncode != 0:
            raise _failed_command(arguments, done)
        return done.stdout.strip()

    def run_unless(self, code: str, *arguments: str) -> bool:
        """The same, but whether it could not be done for this reason."""
        done = self._command(arguments)
        if done.returncode == 2 and code in done.stderr:
            return True
        if done.returncode != 0:
            raise _failed_command(arguments, done)
        return False

    def _command(self, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dragoman.cli", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=self._environment, check=False)

    def wait_for(self, name: str, pattern: str) -> re.Match[str]:
        """Until it has said something that fits."""
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(pattern, self._log(name).read_text(errors="replace"))) is None:
            if self._running[name].poll() is not None or time.monotonic() > deadline:
                raise self._failed(name)
            time.sleep(0.05)
        return found

    def ended(self, name: str) -> bool:
        code = self._running[name].poll()
        if code not in (None, 0):
            raise self._failed(name)
        return code == 0

    def stop(self, name: str) -> None:
        """It finishes what it has in hand."""
        process = self._running.pop(name)
        process.terminate()
        process.wait(PATIENCE)

    def kill(self, name: str) -> None:
        """SIGKILL: no good-bye, no clean-up."""
        process = self._running.pop(name)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    def _failed(self, name: str) -> DragomanError:
        lines = self._log(name).read_text(errors="replace").strip().splitlines()
        return DragomanError(
            f"The process {name!r} did not do its part: {lines[-1] if lines else 'it said nothing'}",
            code="demo.process",
            next=f"Look at {self._log(name)}",
        )

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"


def _failed_command(arguments: tuple[str, ...], done: subprocess.CompletedProcess[str]) -> DragomanError:
    return DragomanError(
        f"'dragoman {' '.join(arguments[:2])}' did not do its part.",
        code="demo.command",
        reason=(done.stderr or done.stdout)[-400:],
    )
