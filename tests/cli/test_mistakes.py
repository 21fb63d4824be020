"""What cannot be done is told in a sentence, with exit code 2, and nothing is passed over in silence."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.cli.channel.bridging import address, default_group
from dragoman.core.channel import Channel
from dragoman.core.loading import BROKERS, load
from dragoman.core.message import Message


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("config init nowhere/dragoman.toml", "No such file or directory"),
        ("registry backup nowhere/registry.backup", "nowhere"),
        ("registry check . --reference a=b@1", "--reference goes with one file"),
        ("channel alter orders --partitions 0", "0 is not in the range"),
        ("gateway serve --sep-port 0", "0 is not in the range"),
        ("channel bridge orders kafka://localhost:9092", "names no channel"),
        ("channel bridge orders orders", "into itself"),
        ("registry list --registry embedded://data", "is not the URL of a registry"),
    ],
)
def test_a_mistake_is_told(
    words: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_port_for_sep_that_nobody_could_know_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGOMAN_SERVE_SEP_PORT", "0")
    assert main_until_done("serve") == 2
    assert "serve.sep_port cannot be 0" in capsys.readouterr().err


def test_what_the_system_refuses_is_told_to_programs_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["registry", "export", "/proc/nowhere", "--json"])
    assert ended.value.code == 2
    error = json.loads(capsys.readouterr().err)["error"]
    assert error["code"] == "configuration.system"
    assert error["where"] == {"file": "/proc/nowhere"}


def test_bridges_to_different_targets_have_different_groups() -> None:
    targets = [
        "kafka://one:9092/orders",
        "kafka://two:9092/orders",
        "kafka://one:9092/copies",
        "nats://one:9092/orders",
    ]
    assert len({default_group(address(each)) for each in targets}) == len(targets)
    same = [
        "kafka://one:9092/orders",
        "kafka://me:secret@one:9092/orders",
        "kafka://one:9092/orders?linger=5",
    ]
    assert len({default_group(address(each)) for each in same}) == 1
    assert "secret" not in default_group(address(same[1]))


def test_tail_stops_after_as_many_as_it_was_told(tmp_path: Path) -> None:
    url = f"embedded://{tmp_path}/broker"

    async def fill() -> None:
        broker = load(BROKERS, "embedded")(url)
        await broker.connect()
        await broker.create(Channel("orders", 1))
        await broker.publish([Message("orders", b"%d" % number) for number in range(2)])
        await broker.close()

    asyncio.run(fill())
    words = ["channel", "tail", "orders", "--raw", "--json", "--from", "earliest", "--follow", "--limit", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "dragoman.cli", *words, "--broker", url],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert [json.loads(line)["payload"] for line in done.stdout.splitlines()] == ["30", "31"]


def test_lines_that_cannot_be_read_are_told_and_the_others_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders-value.avsc").write_text('"string"')
    (tmp_path / "lines").write_bytes(b'"one"\n"\xff"\n{\n12\n"tw\xc3\xb6"\n')
    main_until_done("registry register orders-value orders-value.avsc --registry sqlite://registry.db")
    main_until_done("channel create orders --broker embedded://broker")
    capsys.readouterr()
    code = main_until_done(
        "channel publish orders --file lines --json --broker embedded://broker --registry sqlite://registry.db"
    )
    printed = capsys.readouterr()
    assert code == 1
    assert json.loads(printed.out) == {"channel": "orders", "published": 2, "refused": 3}
    assert [line.partition(":")[0] for line in printed.err.splitlines() if line.startswith("line ")] == [
        "line 2",
        "line 3",
        "line 4",
    ]


def main_until_done(words: str) -> object:
    try:
        main(words.split())
    except SystemExit as ended:
        return ended.code
    return 0
