"""The kit itself: a real server survives what tests will do to servers."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pymysql
import pytest

from tests.services.etcd import Etcd
from tests.services.fixtures import running
from tests.services.group import Group
from tests.services.mariadb import Mariadb
from tests.services.ports import free_port
from tests.services.postgres import Postgres
from tests.services.redis import Redis


@pytest.fixture
def redis(service_folder: Path):
    yield from running(Redis, service_folder / "own")


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_a_killed_server_comes_back_on_its_port_with_its_data(redis: Redis) -> None:
    redis.ask(b"SET colour blue\r\n")
    redis.kill()
    with pytest.raises(OSError):
        redis.answers()
    redis.restart()
    assert redis.ask(b"GET colour\r\n") == b"$4\r\nblue\r\n"


def test_a_stopped_server_is_gone(redis: Redis) -> None:
    pid = redis.pid
    redis.stop()
    assert not Path(f"/proc/{pid}").exists()


def test_a_server_that_ends_by_itself_is_told_with_its_last_words(redis: Redis) -> None:
    with contextlib.suppress(OSError):
        redis.ask(b"SHUTDOWN NOSAVE\r\n")
    assert redis._process is not None
    assert redis._process.wait(30)
    with pytest.raises(RuntimeError, match="bye bye"):
        redis.stop()
    redis.restart()


def test_a_group_is_ended_with_its_children_and_told_how_it_ended(tmp_path: Path) -> None:
    group = Group(["sh", "-c", "sleep 600 & echo $!; exit 3"], tmp_path / "log")
    assert group.wait(30)
    child = Path("/proc") / (tmp_path / "log").read_text().strip()
    assert child.exists()
    assert group.kill() == 3
    assert eventually(lambda: not (child / "exe").exists())
    assert group.kill() == 3


def test_a_killed_group_leaves_no_descendant_in_a_session_of_its_own(tmp_path: Path) -> None:
    nested = "setsid sh -c 'setsid sleep 600 & echo $!; echo $$; wait' & wait"
    group = Group(["sh", "-c", nested], tmp_path / "log")
    log = tmp_path / "log"
    assert eventually(lambda: len(log.read_text().split()) == 2)
    group.kill()
    assert [pid for pid in log.read_text().split() if (Path("/proc") / pid / "exe").exists()] == []


def test_a_group_is_killed_though_its_name_is_no_text(tmp_path: Path) -> None:
    log = tmp_path / "log"
    group = Group(["sh", "-c", r"printf '\377' > /proc/$$/comm; echo named; sleep 600 & wait"], log)
    assert eventually(lambda: log.read_text() == "named\n")
    assert group.kill() == -signal.SIGKILL


def test_a_group_is_killed_while_its_children_end_unseen(tmp_path: Path) -> None:
    program = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "while True:\n"
        "    for _ in range(30):\n"
        "        os.fork() or (time.sleep(0.01), os._exit(0))\n"
        "    print('ready', flush=True)\n"
    )
    log = tmp_path / "log"
    group = Group([sys.executable, "-c", program], log)
    assert eventually(lambda: "ready" in log.read_text())
    assert group.kill() == -signal.SIGKILL


def test_a_port_is_given_to_one_process_only() -> None:
    port = free_port()
    claim = f"from tests.services import ports; print(ports._claim({port}) is None)"
    other = subprocess.run([sys.executable, "-c", claim], capture_output=True, text=True, check=True)
    assert other.stdout == "True\n"


def test_etcd_answers(etcd_server: Etcd) -> None:
    assert etcd_server.answers()


def test_postgres_has_the_database(postgres_server: Postgres) -> None:
    with psycopg.connect(postgres_server.url) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("dragoman",)


def test_mariadb_has_the_database(mariadb_server: Mariadb) -> None:
    connection = pymysql.connect(
        host="127.0.0.1", port=mariadb_server.port, user="dragoman", password="secret", database="dragoman"
    )
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT DATABASE()")
        assert cursor.fetchone() == ("dragoman",)
