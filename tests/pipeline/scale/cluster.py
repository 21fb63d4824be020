"""A Spark cluster of separate processes: a master, two workers, a Connect server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark
from tests.classes import SPARK
from tests.services.java import reading
from tests.services.server import free_port

HOME = Path(pyspark.__file__).parent
PATIENCE = 120.0
SMALL = {"SPARK_DAEMON_MEMORY": "640m", "SPARK_DAEMON_JAVA_OPTS": reading(SPARK)}


def wait_until_open(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"nothing listens on {port}")


class Processes:
    """Every process started here is ended on leaving, with its children."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process in self._running:
            process.wait()

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self.environment(),
                start_new_session=True,
            )
        self._running.append(process)
        return process

    def environment(self) -> dict[str, str]:
        own = {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        return {**os.environ, **SMALL, **own}

    def cluster(self) -> str:
        """A master and two workers of one core each; the master's URL."""
        port = free_port()
        daemon = str(HOME / "bin" / "spark-class")
        deploy = "org.apache.spark.deploy"
        master = self.start(
            "master", daemon, f"{deploy}.master.Master",
            "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port()),
        )  # fmt: skip
        wait_until_open(port, master)
        url = f"spark://127.0.0.1:{port}"
        for number in (1, 2):
            self.start(
                f"worker-{number}", daemon, f"{deploy}.worker.Worker", url, "--host", "127.0.0.1",
                "--cores", "1", "--memory", "1g", "--webui-port", str(free_port()),
                "--work-dir", str(self.folder / f"worker-{number}"),
            )  # fmt: skip
        return url
