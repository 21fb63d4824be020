"""The commands, as people and scripts run them."""

from __future__ import annotations

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
from tests.registry.schemas import ORDER, ORDER_WITH_NOTE, ORDER_WITH_TOTAL

from dragoman.cli import main
from dragoman.registry.store.tables import STEPS


class Shell:
    """Runs commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], registry: str) -> None:
        self._capsys = capsys
        self._registry = registry

    def run(self, *words: object, code: int = 0) -> str:
        """What the command prints; it must exit with the code."""
        with pytest.raises(SystemExit) as exit:
            main(["registry", *map(str, words), "--registry", self._registry])
        printed = self._capsys.readouterr()
        assert (exit.value.code or 0) == code, printed.err
        return printed.out if code != 2 else printed.err

    def json(self, *words: object, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code))


@pytest.fixture(params=["database", "server"])
def shell(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    if request.param == "server":
        return Shell(capsys, request.getfixturevalue("server").url)
    return Shell(capsys, f"sqlite://{tmp_path}/cli.db")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "schemas"
    folder.mkdir()
    (folder / "orders-value.avsc").write_text(ORDER.text)
    return folder


def test_a_contract_is_registered_shown_and_deleted(shell: Shell, files: Path) -> None:
    assert shell.run("list") == "There are no contracts.\n"
    made = shell.json("register", "orders-value", files / "orders-value.avsc")
    assert made == {"contract": "orders-value", "version": 1, "id": 1}
    (listed,) = shell.json("list")
    assert (listed["contract"], listed["version"], listed["update"]) == ("orders-value", 1, "consumer first")
    assert "orders-value" in shell.run("list")
    shown = shell.json("show", "orders-value@1")
    assert json.loads(shown["schema"])["name"] == "Order"
    assert '"name": "Order"' in shell.run("show", "orders-value")
    assert shell.json("delete", "orders-value")["versions"] == [1]
    assert shell.json("delete", "orders-value", "--permanent")["versions"] == [1]
    assert "not found" in shell.run("show", "orders-value", code=2)


def test_a_refused_schema_exits_with_one_and_its_reasons(shell: Shell, files: Path) -> None:
    shell.run("register", "orders-value", files / "orders-value.avsc")
    (files / "orders-value.avsc").write_text(ORDER_WITH_TOTAL.text)
    refused = shell.run("register", "orders-value", files / "orders-value.avsc", code=1)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in refused
    (outcome,) = shell.json("check", files, code=1)
    assert not outcome["accepted"]
    assert outcome["reasons"][0]["counterexample"]
    assert "refused" in shell.run("check", files, code=1)
    (files / "orders-value.avsc").write_text(ORDER_WITH_NOTE.text)
    assert "1 of 1 would be accepted" in shell.run("check", files)
    (files / "broken.avsc").write_text("{")
    assert shell.json("check", files, code=1)[0]["reasons"][0]["rule"] == "INVALID_SCHEMA"
    assert shell.json("check", files / "orders-value.avsc", "--contract", "other")[0]["contract"] == "other"


def test_versions_are_compared(shell: Shell, files: Path) -> None:
    shell.run("compatibility", "orders-value", "none")
    for text in (ORDER.text, ORDER_WITH_TOTAL.text):
        (files / "orders-value.avsc").write_text(text)
        shell.run("register", "orders-value", files / "orders-value.avsc")
    found = shell.json("diff", "orders-value")
    assert [change["path"] for change in found["changes"]] == ["total"]
    shown = shell.run("diff", "orders-value", 1, 2)
    assert "added" in shown
    assert "Allowed by NONE, FORWARD, FORWARD_TRANSITIVE." in shown


def test_channels_are_bound_and_history_is_told(shell: Shell, files: Path) -> None:
    shell.run("register", "orders-value", files / "orders-value.avsc")
    shell.run("bind", "orders-value", "orders.eu")
    assert shell.json("bind", "orders-value") == [{"channel": "orders.eu"}]
    assert shell.json("bind", "orders-value", "orders.eu", "--remove") == []
    actions = [each["action"] for each in shell.json("history", "orders-value")]
    assert actions == ["unbind", "bind", "register"]
    assert "register" in shell.run("history")


def test_a_registry_moves_by_directory_and_by_backup(shell: Shell, files: Path, tmp_path: Path) -> None:
    shell.run("register", "orders-value", files / "orders-value.avsc")
    assert shell.json("export", tmp_path / "export")["files"] == 3
    elsewhere = Shell(shell._capsys, f"sqlite://{tmp_path}/elsewhere.db")
    assert elsewhere.json("import", tmp_path / "export") == {"added": 1, "known": 0}
    assert elsewhere.json("check", tmp_path / "export")[0]["accepted"]
    kind = shell.json("backup", tmp_path / "backup")["kind"]
    if kind == "sqlite":
        copy = Shell(shell._capsys, f"sqlite://{tmp_path}/backup")
        assert copy.json("list")[0]["contract"] == "orders-value"
    else:
        assert elsewhere.json("import", tmp_path / "backup") == {"added": 0, "known": 1}
    assert elsewhere.json("migrate") == {"before": len(STEPS), "after": len(STEPS)}


def test_keys_are_made_listed_and_revoked(shell: Shell) -> None:
    made = shell.json("keys", "create", "ada", "--grant", "read", "--grant", "write:orders-", "--days", 1)
    (listed,) = shell.json("keys", "list")
    assert (listed["id"], listed["grants"]) == (made["id"], "read, write:orders-")
    shell.run("keys", "revoke", made["id"])
    assert shell.json("keys", "list") == []
    assert "no key" in shell.run("keys", "revoke", made["id"], code=2)


def test_code_is_written_and_checked(shell: Shell, files: Path, tmp_path: Path) -> None:
    shell.run("register", "orders-value", files / "orders-value.avsc")
    target = tmp_path / "records.py"
    assert "class Order:" in shell.run("code", "orders-value")
    shell.run("code", "orders-value", "--check", "-o", target, code=1)
    shell.run("code", "orders-value@1", "-o", target)
    shell.run("code", "orders-value", "--check", "-o", target)
    target.write_text("stale")
    assert shell.json("code", "orders-value", "--check", "-o", target, code=1)["stale"]


def test_an_unreachable_registry_exits_with_two(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = json.loads(Shell(capsys, "http://127.0.0.1:9").run("list", "--json", code=2))
    assert error["error"]["code"] == "registry.unavailable"


def serving(*words: str, folder: Path | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "dragoman.cli", "registry", "serve", "--port", "0", *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder)


def announced(process: subprocess.Popen[str]) -> str:
    """Where the server says that it listens, once it answers there."""
    assert process.stderr is not None
    url = re.search(r"http://[\d.]+:\d+", process.stderr.readline())
    assert url is not None
    wait_for(f"{url.group()}/ready")
    return url.group()


def test_the_server_starts_answers_and_stops_when_told(tmp_path: Path) -> None:
    store = f"sqlite://{tmp_path}/r.db"
    with serving("--store", store, "--log", "json", "--log-level", "info") as process:
        try:
            httpx.post(f"{announced(process)}/contracts/a", json={"schema": ORDER.text})
        finally:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    lines = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    requests = [line for line in lines if line["message"] == "request" and line["method"] == "POST"]
    assert [(line["path"], line["status"]) for line in requests] == [("/contracts/a", 200)]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_server_obeys_the_limits_that_are_set(tmp_path: Path, workers: str) -> None:
    (tmp_path / "dragoman.toml").write_text(
        "[registry_limits]\nbody = 1000\n[registry_connections]\nhead_bytes = 2000\n"
    )
    words = ("--store", f"sqlite://{tmp_path}/r.db", "--workers", workers)
    with serving(*words, folder=tmp_path) as process:
        try:
            url = announced(process)
            for size, status in ((900, 200), (1100, 413)):
                body = json.dumps({"schema": ORDER.text}).ljust(size)
                headers = {"content-type": "application/json"}
                answer = httpx.post(f"{url}/contracts/a", content=body, headers=headers)
                assert answer.status_code == status
            for size, status in ((1000, 200), (2500, 431)):
                assert httpx.get(f"{url}/subjects", headers={"x": "y" * size}).status_code == status
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


def test_workers_share_a_port_and_a_dead_one_is_replaced(tmp_path: Path) -> None:
    with serving("--store", f"sqlite://{tmp_path}/r.db", "--workers", "2") as process:
        try:
            url = announced(process)
            before = workers_of(process.pid, 2)
            os.kill(before[0], signal.SIGKILL)
            deadline = time.monotonic() + 60
            while before[0] in workers_of(process.pid, 2):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            wait_for(f"{url}/ready")
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    assert process.returncode == 0


def test_workers_that_are_told_to_stop_are_not_replaced(tmp_path: Path) -> None:
    """A terminal, and most supervisors, tell all processes of a group at once."""
    with serving("--store", f"sqlite://{tmp_path}/r.db", "--workers", "2") as process:
        try:
            announced(process)
            workers = workers_of(process.pid, 2)
        finally:
            for pid in (process.pid, *workers):
                os.kill(pid, signal.SIGINT)
            _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "is replaced" not in errors


def test_an_open_server_refuses_a_public_address(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["registry", "serve", "--host", "0.0.0.0", "--store", "sqlite://:memory:"])
    assert exit.value.code == 2
    assert "configuration.public" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("--port", "0", "--key", "key.pem"),
        ("--port", "0", "--certificate", "nothing.pem"),
        ("--port", "70000"),
        ("--port", "0", "--store", "sqlite:///proc/nowhere/registry.db"),
        ("--port", "0", "--store", "nonsense://x"),
        ("--port", "0", "--store", "nonsense://x", "--workers", "2"),
        ("--port", "0", "--store", "sqlite://:memory:", "--workers", "2"),
        ("--port", "0", "--jwt-audience", "registry"),
    ],
)
def test_a_server_that_cannot_start_says_why(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["registry", "serve", "--store", "sqlite://:memory:", *words])
    assert exit.value.code == 2
    assert "rror" in capsys.readouterr().err


def wait_for(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.05)


def workers_of(parent: int, wanted: int) -> list[int]:
    """The processes of the workers, without the helper that multiprocessing runs beside them."""
    deadline = time.monotonic() + 60
    while True:
        found = []
        for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            try:
                line = Path(f"/proc/{child}/cmdline").read_bytes()
            except OSError:
                continue
            if b"spawn_main" in line:
                found.append(int(child))
        if len(found) >= wanted:
            return sorted(found)
        assert time.monotonic() < deadline
        time.sleep(0.05)
