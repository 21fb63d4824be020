"""One real server: its program, its data folder, its port, its life."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from dragoman.testing.proxy import Proxy
from tests.services.group import Group
from tests.services.ports import free_port

START_TIMEOUT = 90.0
STOP_TIMEOUT = 30.0


class ServiceUnavailable(Exception):
    """The server's program is not here and cannot be installed."""


class Server(ABC):
    """Subclasses say which program to run and when it answers; starting, killing and stopping are here."""

    program: str
    """Found on the path or in ``folders``."""
    package: str
    """Debian's package that has the program."""
    folders: tuple[str, ...] = ()

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = free_port()
        self._process: Group | None = None
        data.mkdir(parents=True, exist_ok=True)

    @property
    @abstractmethod
    def url(self) -> str:
        """What a client of ours is given."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The program in the foreground."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves requests; may raise OSError while it does not."""

    def prepare(self) -> None:  # noqa: B027 -- most servers need no preparation
        """Make the data folder ready, once, before the first start."""

    def environment(self) -> Mapping[str, str]:
        return {}

    @classmethod
    def executable(cls) -> str:
        """The program's path, after installing its package if need be."""
        found = cls._find()
        if found is None:
            install(cls.package)
            found = cls._find()
        if found is None:
            raise ServiceUnavailable(f"{cls.program} is missing. Debian: apt-get install {cls.package}")
        return found

    @classmethod
    def _find(cls) -> str | None:
        path = os.pathsep.join((*cls.folders, os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
        return shutil.which(cls.program, path=path)

    def start(self) -> None:
        if not any(self.data.iterdir()):
            self.prepare()
        self._launch()

    def _launch(self) -> None:
        self._process = Group(self.command(), self._log_path, self.data, self.environment())
        try:
            self._wait_for_answers()
        except BaseException:
            self.kill()
            raise

    def _wait_for_answers(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            self.check()
            with contextlib.suppress(OSError):
                if self.answers():
                    return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.program} does not answer:\n{self.log()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Ask it to end; insist after a while. One that ended by itself was not there for its tests."""
        if self._process is None:
            return
        try:
            self.check()
            self._process.signal(self.stop_signal)
            self._process.wait(STOP_TIMEOUT)
        finally:
            self.kill()

    def check(self) -> None:
        """Raises if it has ended by itself."""
        if self._process is not None and self._process.ended:
            raise RuntimeError(f"{self.program} ended by itself:\n{self.log()[-4000:]}")

    stop_signal = signal.SIGTERM

    def kill(self) -> None:
        """SIGKILL to the server and all its children."""
        if self._process is None:
            return
        self._process.kill()
        self._process = None

    def restart(self) -> None:
        """Start again on the same port and data, after ``stop`` or ``kill``."""
        self._launch()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.signal_all(number)

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def _log_path(self) -> Path:
        return self.data.with_suffix(".log")

    def log(self) -> str:
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def proxy(self) -> Proxy:
        """A way to it on which the network can be cut."""
        return Proxy(self.url)

    async def kill_and_restart(self) -> None:
        """SIGKILL, then up again on the same port and data."""
        self.check()
        await asyncio.to_thread(self.kill)
        await asyncio.to_thread(self.restart)

    def accepts(self) -> bool:
        """Whether something listens on the port."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True


def install(package: str) -> None:
    """Install one Debian package, without starting what it brings. One at a time: others fail meanwhile."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ServiceUnavailable(f"Cannot install {package} here. As root: apt-get install {package}")
    with (Path(tempfile.gettempdir()) / "dragoman-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install(package)


def _install(package: str) -> None:
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        quiet = {"DEBIAN_FRONTEND": "noninteractive", **os.environ}
        for command in (
            ["apt-get", "update", "-qq"],
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package],
        ):
            done = subprocess.run(command, env=quiet, capture_output=True, text=True)
        if done.returncode != 0:
            raise ServiceUnavailable(f"apt-get could not install {package}: {done.stderr[-500:]}")
    finally:
        if ours:
            policy.unlink(missing_ok=True)
