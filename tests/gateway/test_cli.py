"""``dragoman gateway``: a gateway as a process, its keys, its configuration."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from dragoman.cli import main
from dragoman.core.errors import ConfigurationError
from dragoman.gateway.configuration import options_from, read_file, secret_from, secrets_from
from dragoman.gateway.envelope import collection, request, to_json
from dragoman.gateway.policy import Ttl
from dragoman.gateway.store.port import Collect
from tests.gateway.test_http import JSON

CONFIG = """
collection-point = "service.answers"
ttl = "hops"
waiting-quota = 7

[owner-rate]
per-second = 5
burst = 10

[limits]
depth = 9

[[public]]
resource = "service.shares"
entity = "movement"
methods = ["select", "process"]
versions = ["v1"]
level = "original token"
collect = "lease"
lease = 5
retain = 60

[[public]]
resource = "service.auth"
level = "basic"
"""


class Done(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def dragoman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line, in this process."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Done:
        capsys.readouterr()
        code = 0
        try:
            main(["gateway", *words])
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Done(code, *capsys.readouterr())

    return run


@contextmanager
def serving(folder: Path, *words: str) -> Iterator[str]:
    command = [sys.executable, "-m", "dragoman.cli", "gateway", "serve", "--port", "0", *words]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"http://[\d.]+:\d+", process.stderr.readline())
        assert found is not None
        yield found.group()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)


def test_a_gateway_runs_with_keys_and_survives_its_process(tmp_path: Path, dragoman: Run) -> None:
    made = dragoman("keys", "create", "partner", "--resource", "service.shares", "--json")
    key = json.loads(made.out)["key"]
    asked = request("service.shares", "select", client_id="backend", token=key)
    with serving(tmp_path, "--public", "service.shares") as url:
        dropped = httpx.post(f"{url}/drop-off", content=to_json(asked), headers=JSON, timeout=60.0)
        assert dropped.status_code == 202
    with serving(tmp_path, "--public", "service.shares") as url:
        again = httpx.post(f"{url}/drop-off", content=to_json(asked), headers=JSON, timeout=60.0)
        assert (again.status_code, again.content) == (202, dropped.content)
        nothing = httpx.post(
            f"{url}/collection", content=to_json(collection(asked)), headers=JSON, timeout=60.0
        )
        assert nothing.status_code == 204
    secret = tmp_path / ".dragoman" / "gateway.key"
    assert secret.stat().st_mode & 0o777 == 0o600
    listed = json.loads(dragoman("keys", "list", "--json").out)
    assert [(each["owner"], each["resources"]) for each in listed] == [("partner", "service.shares")]
    assert key.partition(".")[2] not in repr(listed)
    assert dragoman("keys", "revoke", key.partition(".")[0]).code == 0
    assert dragoman("keys", "revoke", key.partition(".")[0]).code == 2


def test_a_file_says_what_can_be_reached(tmp_path: Path, dragoman: Run) -> None:
    (tmp_path / "gateway.toml").write_text(CONFIG)
    shown = dragoman("check", "--config", "gateway.toml", "--json")
    rows = json.loads(shown.out)
    assert [(each["resource"], each["level"]) for each in rows] == [
        ("service.shares", "original_token"),
        ("service.auth", "basic"),
    ]
    options = options_from(read_file(str(tmp_path / "gateway.toml")), b"x" * 32)
    assert (options.collection_point, options.policy.ttl) == ("service.answers", Ttl.HOPS)
    assert options.policy.rules[0].collect is Collect.LEASE
    assert (options.limits.depth, options.waiting_quota) == (9, 7)
    assert options.owner_rate is not None and options.owner_rate.burst == 10


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("public = 3", "public"),
        ("public = []\nport = 3", "port"),
        ("[[public]]\nresource = 'a b'", "channel name"),
        ("[[public]]\nresource = 'a'\nlevel = 'high'", "level"),
        ("[[public]]\nresource = 'a'\nmethods = ['response']", "requests only"),
        ("[[public]]\nresource = 'service.collection'", "collection point"),
        ("[[public]]\nresource = 'a'\n[[public]]\nresource = 'a'", "two rules"),
        ("public = []\n[jwt]\nkey-file = 'nowhere'\nalgorithm = 'EdDSA'\naudience = 'a'", "cannot be read"),
        ("= 3", "cannot be understood"),
        ("public = []\nreplay-window = -1", "replay_window is a number above zero"),
        ("public = []\nlongest-wait = nan", "longest_wait is a number"),
        ("public = []\n[limits]\ndepth = 0", "above zero"),
        ("public = []\n[peer-rate]\nper-second = nan\nburst = 1", "rate"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=told):
        options_from(read_file(str(path)), b"x" * 32, tmp_path)


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    path = str(tmp_path / "deep" / "secret")
    [first] = secrets_from(path, make=True)
    assert len(first) == 64
    assert secrets_from(path, make=True) == [first]
    assert secret_from(path) == first


def test_older_secrets_stand_below_the_one_in_force(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("new and in force\nold\n\nolder\n")
    assert secrets_from(str(path)) == [b"new and in force", b"old", b"older"]
    path.write_text("\n")
    with pytest.raises(ConfigurationError, match="empty"):
        secrets_from(str(path), make=True)


def test_workers_do_not_pretend_to_share_memory(dragoman: Run) -> None:
    failed = dragoman("serve", "--port", "0", "--workers", "2", "--broker", "memory://")
    assert failed.code == 2
    assert "memory" in failed.err
