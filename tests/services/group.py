"""A process with all its children: started, watched and ended together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


class Group:
    """Only ``kill`` takes note of its end. Until then its number cannot become that of another process."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})},
                cwd=folder,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        if self._process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def wait(self, timeout: float) -> bool:
        """Whether it ended by then."""
        deadline = time.monotonic() + timeout
        while not self.ended:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def signal(self, number: signal.Signals) -> None:
        """To the process alone."""
        os.kill(self.pid, number)

    def signal_all(self, number: signal.Signals) -> None:
        os.killpg(self.pid, number)

    def kill(self) -> int:
        """SIGKILL to whoever is left; how it ended, by this or before."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.signal_all(signal.SIGKILL)
        return self._process.wait()
