"""The kit itself: a real server survives what tests will do to servers."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pymysql
import pytest

from tests.services.etcd import Etcd
from tests.services.fixtures import running
from tests.services.mariadb import Mariadb
from tests.services.postgres import Postgres
from tests.services.redis import Redis


@pytest.fixture
def redis(service_folder: Path):
    yield from running(Redis, service_folder / "own")


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
