"""Several hosts on one machine: network namespaces that a bridge connects."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.services.etcd import Etcd

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=60)


def possible() -> str | None:
    """Why this machine cannot have namespaces, or ``None`` if it can."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "Network namespaces need root and iproute2."
    probe = f"dgm{os.getpid()}p"
    try:
        ip("netns", "add", probe)
        try:
            ip("-n", probe, "link", "add", "br0", "type", "bridge")
            ip("-n", probe, "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        finally:
            ip("netns", "del", probe)
    except (subprocess.SubprocessError, OSError) as error:
        return f"There can be no network namespaces here: {error}"
    return None


class Network:
    """A switch in a namespace of its own, where etcd runs, and hosts around it."""

    def __init__(self) -> None:
        self._name = f"dgm{os.getpid()}"
        self._hosts = 0
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        ip("-n", self.switch, "addr", "add", "10.77.0.1/24", "dev", "br0")
        for device in ("lo", "br0"):
            ip("-n", self.switch, "link", "set", device, "up")

    @property
    def switch(self) -> str:
        return f"{self._name}s"

    def add_host(self) -> int:
        self._hosts += 1
        number = self._hosts
        space, near, far = f"{self._name}h{number}", f"port{number}", "eth0"
        ip("netns", "add", space)
        ip("-n", self.switch, "link", "add", near, "type", "veth", "peer", "name", far, "netns", space)
        ip("-n", self.switch, "link", "set", near, "master", "br0")
        ip("-n", self.switch, "link", "set", near, "up")
        ip("-n", space, "addr", "add", f"10.77.0.{number + 1}/24", "dev", far)
        for device in ("lo", far):
            ip("-n", space, "link", "set", device, "up")
        return number

    def inside(self, number: int) -> list[str]:
        return ["ip", "netns", "exec", f"{self._name}h{number}"]

    def cut(self, number: int) -> None:
        ip("-n", self.switch, "link", "set", f"port{number}", "down")

    def mend(self, number: int) -> None:
        ip("-n", self.switch, "link", "set", f"port{number}", "up")

    def close(self) -> None:
        for number in range(1, self._hosts + 1):
            with contextlib.suppress(subprocess.SubprocessError):
                ip("netns", "del", f"{self._name}h{number}")
        with contextlib.suppress(subprocess.SubprocessError):
            ip("netns", "del", self.switch)


@contextlib.contextmanager
def etcd_on(network: Network, folder: Path) -> Iterator[str]:
    """The address of an etcd that runs on the switch."""
    folder.mkdir(parents=True, exist_ok=True)
    url, path = "http://10.77.0.1:2379", folder / "etcd.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            [
                *("ip", "netns", "exec", network.switch, Etcd.executable()),
                f"--data-dir={folder}/member",
                f"--listen-client-urls={url}",
                f"--advertise-client-urls={url}",
                "--listen-peer-urls=http://127.0.0.1:2380",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while b"ready to serve client requests" not in path.read_bytes():
            assert process.poll() is None and time.monotonic() < deadline, path.read_text()[-2000:]
            time.sleep(0.05)
        yield "etcd://10.77.0.1:2379"
    finally:
        process.kill()
        process.wait()


class Host:
    """A program on a host; its events are kept."""

    def __init__(self, network: Network, number: int, etcd: str, ahead: float = 0.0) -> None:
        self._command = [
            *network.inside(number),
            *(sys.executable, "-m", "tests.topology.host", etcd),
            *(("--ahead", str(ahead)) if ahead else ()),
        ]
        self.number = number
        self.events: list[dict[str, Any]] = []
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Host:
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )
        self._reader = asyncio.create_task(self._read())
        await self.event("ready")
        return self

    async def __aexit__(self, *gone: object) -> None:
        await self.kill()

    async def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        async for line in self._process.stdout:
            self.events.append(json.loads(line))
            self._changed.set()

    async def do(self, *words: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        done = sum(each["event"] == "done" for each in self.events)
        self._process.stdin.write(" ".join(words).encode() + b"\n")
        await self._until(lambda: sum(each["event"] == "done" for each in self.events) > done)

    async def event(self, name: str, **more: Any) -> None:
        """Until it was told at any time."""
        wanted = {"event": name, **more}
        await self._until(lambda: any(wanted.items() <= each.items() for each in self.events))

    async def count(self, name: str, count: int) -> None:
        """Until this is the newest number that it tells."""

        def newest() -> bool:
            told = [each["count"] for each in self.events if each["event"] == name]
            return bool(told) and told[-1] == count

        await self._until(newest)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
        if self._process is not None:
            await self._process.wait()
        if self._reader is not None:
            await self._reader
