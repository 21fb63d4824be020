"""One real server: its program, its data folder, its port, its life."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import random
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

START_TIMEOUT = 90.0
STOP_TIMEOUT = 30.0


_given: set[int] = set()


def free_port() -> int:
    """A port that nobody uses, and that the system does not give to outgoing connections meanwhile."""
    first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    # Property tests seed the shared random numbers, and two processes must not walk the same way.
    for port in random.SystemRandom().sample(range(10_240, max(first_outgoing, 20_480)), 1000):
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise RuntimeError("There is no free port.")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


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
        self._process: subprocess.Popen[bytes] | None = None
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
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                list(self.command()),
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self.environment()},
                cwd=self.data,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.program} ended at once:\n{self.log()[-2000:]}")
            with contextlib.suppress(OSError):
                if self.answers():
                    return
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self.program} does not answer:\n{self.log()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Ask it to end; insist after a while."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(self.stop_signal)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT)
        self.kill()

    stop_signal = signal.SIGTERM

    def kill(self) -> None:
        """SIGKILL to the server and all its children."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
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
            os.killpg(self._process.pid, number)

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
