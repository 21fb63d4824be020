"""A Spark cluster of separate processes: a master, two workers, a Connect server."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.classes import SPARK
from tests.services.group import Group
from tests.services.java import reading
from tests.services.ports import free_port
from tests.services.spark import HOME

PATIENCE = 120.0
SMALL = {"SPARK_DAEMON_MEMORY": "640m", "SPARK_DAEMON_JAVA_OPTS": reading(SPARK)}


def wait_until_open(port: int, process: Group) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and not process.ended:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"nothing listens on {port}")


class Processes:
    """Every process started here is ended on leaving, with its children."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: list[Group] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running:
            process.kill()

    def start(self, name: str, *command: str) -> Group:
        process = Group(command, self.folder / f"{name}.log", environment=self.environment())
        self._running.append(process)
        return process

    def environment(self) -> dict[str, str]:
        own = {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        return {**SMALL, **own}

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
