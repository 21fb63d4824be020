"""``dragoman serve``: registry and gateway, by HTTP and SEP, in one process that stops when asked."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
from tests.services.ports import free_port

from dragoman.gateway.sep import Operation, Reply, SepClient, ServerKey
from dragoman.gateway.sep.keys import PublicKey

PATIENCE = 60.0


def wait_for(log: Path, process: subprocess.Popen[bytes], pattern: str) -> str:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text())
        if found:
            return found[1]
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    raise AssertionError(log.read_text())


async def by_sep(port: int, key: PublicKey) -> Reply:
    async with SepClient("127.0.0.1", port, key) as client:
        return await client.request(Operation.DROP_OFF, b"{", PATIENCE)


def test_registry_gateway_and_sep_are_served_and_stop_when_asked(tmp_path: Path) -> None:
    key, port = ServerKey.generate(), free_port()
    key.write(tmp_path / "sep.key")
    (tmp_path / "dragoman.toml").write_text(
        f'[serve]\nregistry_port = 0\ngateway_port = 0\nsep_key = "sep.key"\nsep_port = {port}\n'
        "[registry_limits]\nbody = 10\n"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "dragoman.cli", "serve", "--public", "service.loans"],
            cwd=tmp_path,
            env=clean,
            stdout=output,
            stderr=output,
        )
    try:
        registry = wait_for(log, process, r"Registry on (http://[0-9.:]+)")
        gateway = wait_for(log, process, r"Gateway on (http://[0-9.:]+)\.")
        assert httpx.get(f"{registry}/subjects", timeout=PATIENCE).status_code == 200
        large = httpx.post(f"{registry}/subjects/s/versions", json={"schema": '"int"'}, timeout=PATIENCE)
        assert large.status_code == 413, "The limits of the settings are in force."
        deadline = time.monotonic() + PATIENCE
        while httpx.get(f"{gateway}/ready", timeout=PATIENCE).status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        wrong = httpx.post(
            f"{gateway}/drop-off",
            content=b"{",
            headers={"content-type": "application/json"},
            timeout=PATIENCE,
        )
        assert wrong.status_code == 400
        assert asyncio.run(by_sep(port, key.public)).status == 400
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
