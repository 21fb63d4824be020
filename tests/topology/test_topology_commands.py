"""``dragoman topology``: what people and programs see."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from dragoman.cli import application
from dragoman.cli.topology import listing
from dragoman.core.errors import ConfigurationError, DiscoveryUnavailable
from dragoman.topology import Signer
from tests.services.etcd import Etcd
from tests.topology.etcds import SHORT

ENTRY = {
    "service.id": "1",
    "type": "publisher",
    "pubsub.topic": "prices",
    "pubsub.admin.type": "kafka",
    "serializer": "avro",
}


def run(*words: str) -> Result:
    return CliRunner().invoke(application(["topology"]), ["topology", *words], catch_exceptions=True)


def json_of(*words: str, code: int = 0) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "endpoints.json"
    subscriber = ENTRY | {"type": "subscriber", "service.id": "2", "pubsub.scope": "fx"}
    target.write_text(json.dumps([ENTRY, subscriber]))
    return target


def test_list_shows_the_endpoints_of_other_programs(file: Path) -> None:
    found = json_of("list", "--discovery", f"file://{file}")
    assert [(each["type"], each["pubsub.topic"], each.get("pubsub.scope")) for each in found] == [
        ("subscriber", "prices", "fx"),
        ("publisher", "prices", None),
    ]
    assert len(json_of("list", "--discovery", f"file://{file}", "--type", "publisher")) == 1
    assert json_of("list", "--discovery", f"file://{file}", "--topic", "other") == []
    shown = run("list", "--discovery", f"file://{file}").stdout
    assert "kafka" in shown and "fx" in shown


def test_without_a_discovery_the_next_step_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAGOMAN_DISCOVERY", raising=False)
    result = run("list")
    assert isinstance(result.exception, ConfigurationError)
    assert "--discovery" in str(result.exception)


def test_an_etcd_that_is_not_there_is_an_error_not_an_empty_list() -> None:
    result = run("list", "--discovery", "etcd://127.0.0.1:1", "--timeout", "3")
    assert isinstance(result.exception, DiscoveryUnavailable)
    assert "etcd does not answer" in str(result.exception)


def test_explain_shows_scores_reasons_and_origins(file: Path, tmp_path: Path) -> None:
    (tmp_path / "pubsub").mkdir()
    (tmp_path / "pubsub" / "prices.pub").write_text("qos = sample\n")
    words = ("--admin", "memory://", "--admin", "multicast://?interface=lo", "--discovery", f"file://{file}")
    found = json_of("explain", "prices", *words, "--property", "serializer=json")
    assert (found["chosen"], [each["score"] for each in found["admins"]]) == ("multicast", [72, 32])
    settings = found["admins"][0]["settings"]
    assert settings["qos"]["origin"].endswith("prices.pub:1")
    assert settings["serializer"] == {"value": "json", "origin": "request"}
    assert settings["queue.size"]["origin"] == "library"
    as_subscriber = json_of("explain", "prices", *words, "--type", "subscriber")
    assert any("will not meet" in note for note in as_subscriber["notes"]), "the publisher uses kafka"
    assert any("scope fx" in note for note in as_subscriber["notes"])
    shown = run("explain", "prices", *words).stdout
    assert "multicast: 71 points, chosen" in shown
    assert "+70  qos=sample" in shown


def test_explain_says_no_when_no_admin_takes_the_topic() -> None:
    found = json_of("explain", "prices", "--admin", "memory://", "--property", "pubsub.config=kafka", code=1)
    assert found["chosen"] is None
    assert found["admins"][0]["reasons"][0]["why"] == "pubsub.config asks for kafka"


def test_watch_tells_what_is_there_and_ends_after_so_many(file: Path) -> None:
    result = run("watch", "--discovery", f"file://{file}", "--count", "2", "--json")
    assert result.exit_code == 0, result.output
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert [each["change"] for each in told] == ["appeared", "appeared"]


def test_a_key_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    target = tmp_path / "host.key"
    found = json_of("key", "host-a", str(target))
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert Signer.read("host-a", target).public == found["host-a"]
    assert run("key", "host-a", str(target)).exit_code == 2, "a key is never overwritten"


@pytest.fixture
def announcer(etcd_server: Etcd) -> Iterator[subprocess.Popen[str]]:
    url = f"etcd://127.0.0.1:{etcd_server.port}?{SHORT}"
    words = ("announce", "prices", "--admin", "kafka", "--property", "kafka.topic=prices.avro", "--json")
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman.cli", "topology", *words, "--discovery", url],
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.wait()


def line_of(process: subprocess.Popen[str]) -> Any:
    """The next line; a process that says nothing for too long is ended, and so is the waiting."""
    assert process.stdout is not None
    impatience = threading.Timer(60, process.kill)
    impatience.start()
    try:
        return json.loads(process.stdout.readline())
    finally:
        impatience.cancel()


def test_announce_watch_and_list_work_together_over_etcd(
    etcd_server: Etcd, announcer: subprocess.Popen[str]
) -> None:
    url = f"etcd://127.0.0.1:{etcd_server.port}?{SHORT}"
    announced = line_of(announcer)
    watching = subprocess.Popen(
        [
            *(sys.executable, "-m", "dragoman.cli", "topology", "watch", "--json"),
            *("--topic", "prices", "--count", "2", "--discovery", url),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        appeared = line_of(watching)
        assert appeared["change"] == "appeared"
        assert appeared["endpoint"] == announced
        assert announced in json_of("list", "--discovery", url)
        announcer.send_signal(signal.SIGTERM)
        gone = line_of(watching)
        assert (gone["change"], gone["endpoint"]["service.id"]) == ("gone", "0")
        assert watching.wait(60) == 0
    finally:
        watching.kill()
        watching.wait()


def test_nothing_is_announced_by_a_file(file: Path) -> None:
    result = run("announce", "prices", "--admin", "kafka", "--discovery", f"file://{file}")
    assert isinstance(result.exception, ConfigurationError)
    assert "Write the entry into the file" in str(result.exception)


class Silent:
    """A discovery that never knows anything."""

    url = "etcd://nowhere"
    trouble = "Nobody is there."

    async def synced(self) -> None:
        await asyncio.Event().wait()


async def test_watch_tells_of_a_discovery_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(listing, "SILENCE", 0.01)
    await listing._tell_of_silence(Silent())
    assert "etcd://nowhere has not answered yet. Nobody is there." in capsys.readouterr().err
