"""A process with all its children: started, watched and ended together."""

from __future__ import annotations

import contextlib
import os
import select
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
        """SIGKILL to whoever is left; how it ended, by this or before.

        Its descendants end with it, those in sessions of their own as well: PostgreSQL gives one to each
        connection, and what has begun there would still be committed.
        """
        if self._process.returncode is None:
            family = self._halted()
            with contextlib.suppress(ProcessLookupError):
                self.signal_all(signal.SIGKILL)
            for descriptor in family:
                _end(descriptor)
        return self._process.wait()

    def _halted(self) -> list[int]:
        """Descriptors of its descendants. Halted from the top down, none gets another or loses its number."""
        descriptors = []
        generation = {self.pid}
        _halt(self.pid)
        while generation := _children(generation):
            for pid in generation:
                # Of a child that its parent does not care about nothing is left when it ends.
                with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                    descriptors.append(os.pidfd_open(pid))
                    _halt(pid)
        return descriptors


def _halt(pid: int) -> None:
    """With all its threads: one that is late could still take note of a child's end.

    What sleeps uninterruptibly does not come back before the signal. It may wait for a halted child.
    """
    os.kill(pid, signal.SIGSTOP)
    threads = Path(f"/proc/{pid}/task")
    while not all(_state_and_parent(thread)[0] in "TtDZX" for thread in threads.iterdir()):
        time.sleep(0.001)


def _end(descriptor: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    # Unlike select, it takes descriptors of any number.
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    waiting.poll()
    os.close(descriptor)


def _children(parents: set[int]) -> set[int]:
    everyone = (entry for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return {int(entry.name) for entry in everyone if _state_and_parent(entry)[1] in parents}


def _state_and_parent(entry: Path) -> tuple[str, int]:
    """Of a process or a thread, whose name may be any bytes."""
    try:
        stat = (entry / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0
    state, parent = stat.rpartition(")")[2].split()[:2]
    return state, int(parent)
