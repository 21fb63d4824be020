"""The files for deployment say what the program understands."""

from __future__ import annotations

import configparser
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from dragoman.cli.config import SECTIONS
from dragoman.core.settings import all_settings, variable

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


def known_variables() -> set[str]:
    return {variable(each.name) for each in all_settings(SECTIONS)}


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def commands() -> dict[str, list[str]]:
    found = {}
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    found["compose"] = services["dragoman"]["command"]
    manifests = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text()))
    found["kubernetes"] = manifests[0]["spec"]["template"]["spec"]["containers"][0]["args"]
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(ROOT / "deploy" / "dragoman.service")
    found["systemd"] = unit["Service"]["ExecStart"].split()[1:]
    found["docker"] = json.loads(dict(instructions())["CMD"])
    return found


def test_the_dockerfile_has_instructions_that_docker_knows() -> None:
    allowed = {"FROM", "WORKDIR", "COPY", "RUN", "ARG", "USER", "VOLUME", "EXPOSE", "ENV", "HEALTHCHECK"}
    assert {name for name, _ in instructions()} <= allowed | {"ENTRYPOINT", "CMD"}
    copied = [
        words.split()[:-1] for name, words in instructions() if name == "COPY" and "--from" not in words
    ]
    assert all((ROOT / each).exists() for words in copied for each in words)


def test_every_setting_that_is_named_exists() -> None:
    for name in ("Dockerfile", "compose.yaml", "deploy/kubernetes.yaml"):
        named = set(re.findall(r"DRAGOMAN_[A-Z_]+", (ROOT / name).read_text()))
        assert named
        assert named <= known_variables(), name


@pytest.mark.parametrize("name", ["compose", "kubernetes", "systemd", "docker"])
def test_the_entry_points_serve_until_they_are_told_to_stop(name: str, tmp_path: Path) -> None:
    """As they are written, but on free ports and embedded defaults."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("DRAGOMAN_")}
    ports = {"DRAGOMAN_SERVE_REGISTRY_PORT": "0", "DRAGOMAN_SERVE_GATEWAY_PORT": "0"}
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "dragoman.cli", *commands()[name]],
            cwd=tmp_path,
            env={**clean, **ports},
            stdout=output,
            stderr=output,
        )
    try:
        gateway = _address(log, process)
        deadline = time.monotonic() + PATIENCE
        while _status(f"{gateway}/ready") != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = re.search(r"Gateway on (http://[0-9.:]+)\.", log.read_text())
        if found:
            return found[1]
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def _status(url: str) -> int:
    try:
        return httpx.get(url, timeout=PATIENCE).status_code
    except httpx.TransportError:
        return 0


def test_services_of_compose_that_are_depended_on_exist_and_are_healthy_some_time() -> None:
    composed: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    services = composed["services"]
    for service in services.values():
        for name in service.get("depends_on", {}):
            assert services[name]["healthcheck"]["test"]
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in composed["volumes"]
