"""``dragoman channel create|list|describe|alter|lag|delete`` on every broker that has a server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dragoman.cli import main
from dragoman.core.loading import BROKERS, load

SERVERS = {"kafka": "kafka", "rabbitmq": "rabbitmq", "nats": "nats", "mqtt": "mosquitto", "redis": "redis"}

Run = Callable[..., tuple[int, list[Any]]]


@pytest.fixture
def dragoman(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, list[Any]]:
        capsys.readouterr()
        code = 0
        try:
            main(["channel", *arguments, "--json"])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        printed = capsys.readouterr()
        text = printed.out if code == 0 else printed.err
        return code, [json.loads(line) for line in text.splitlines() if line.startswith(("{", "["))]

    return run


@pytest.mark.parametrize("scheme", ["embedded", *SERVERS])
def test_a_channel_is_administered_from_the_command_line(
    scheme: str, dragoman: Run, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = (
        f"embedded://{tmp_path}/broker"
        if scheme == "embedded"
        else str(request.getfixturevalue(f"{SERVERS[scheme]}_server").url)
    )
    able, name = load(BROKERS, scheme).capabilities, f"cli-{uuid4().hex}"
    to = ("--broker", url)
    assert dragoman("create", name, "--partitions", "2", *to) == (0, [{"channel": name, "created": True}])
    assert dragoman("create", name, "--partitions", "2", *to) == (0, [{"channel": name, "created": False}])
    assert name in json.dumps(dragoman("list", *to)[1])
    code, [described] = dragoman("describe", name, *to)
    assert (code, described["name"], described["partitions"]) == (0, name, 2)
    code, [altered] = dragoman("alter", name, "--partitions", "3", *to)
    assert (code, altered["partitions"]) == (0, 3)
    assert dragoman("alter", name, "--partitions", "1", *to)[0] == 2
    assert dragoman("lag", name, *to)[0] == (0 if able.lag else 2)
    assert dragoman("delete", name, "--yes", *to) == (0, [{"channel": name, "deleted": True}])
    assert dragoman("describe", name, *to)[0] == 2


def test_what_alter_does_not_name_stays(dragoman: Run, tmp_path: Path) -> None:
    to = ("--broker", f"embedded://{tmp_path}/broker")
    dragoman("create", "orders", "--partitions", "2", "--retention", "60", *to)
    assert dragoman("alter", "orders", "--partitions", "4", *to)[1][0]["retention"] == 60
    assert dragoman("alter", "orders", "--keep-all", *to)[1] == [
        {"channel": "orders", "partitions": 4, "retention": None}
    ]
    assert dragoman("alter", "orders", "--keep-all", "--retention", "5", *to)[0] == 2


def test_a_bridge_from_the_command_line(dragoman: Run, tmp_path: Path) -> None:
    here, there = f"embedded://{tmp_path}/here", f"embedded://{tmp_path}/there"
    dragoman("create", "orders", "--broker", here)
    assert dragoman("bridge", f"{here}/orders", f"{there}/copies", "--idle", "0.1") == (
        0,
        [{"source": "orders", "target": "copies", "copied": 0}],
    )
    assert "copies" in json.dumps(dragoman("list", "--broker", there)[1])
    assert dragoman("bridge", f"{here}/nothing", f"{there}/copies", "--idle", "0.1")[0] == 2
