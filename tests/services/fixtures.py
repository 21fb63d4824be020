"""Session fixtures: each server is started once, on first use, and stopped at the end."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.services.etcd import Etcd
from tests.services.kafka import Kafka
from tests.services.mariadb import Mariadb
from tests.services.mosquitto import Mosquitto
from tests.services.nats import Nats
from tests.services.postgres import Postgres
from tests.services.rabbitmq import Rabbitmq
from tests.services.redis import Redis
from tests.services.server import Server, ServiceUnavailable

S = TypeVar("S", bound=Server)


def required() -> bool:
    """Whether a missing service fails the tests instead of skipping them."""
    return os.environ.get("DRAGOMAN_REQUIRE_SERVICES") == "1"


def missing(reason: str) -> None:
    if required():
        pytest.fail(reason)
    pytest.skip(reason)


def running(kind: type[S], folder: Path) -> Iterator[S]:
    """Start one server for as long as the generator lives."""
    try:
        kind.executable()
    except ServiceUnavailable as unavailable:
        missing(str(unavailable))
    server = kind(folder / kind.__name__.lower())
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def service_folder() -> Iterator[Path]:
    """Short path, world-passable: some servers run as their own user."""
    folder = Path(tempfile.mkdtemp(prefix="dragoman-services-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _fixture(kind: type[S]) -> Callable[[Path], Iterator[S]]:
    @pytest.fixture(scope="session", name=f"{kind.__name__.lower()}_server")
    def server(service_folder: Path) -> Iterator[S]:
        yield from running(kind, service_folder)

    return server


etcd_server = _fixture(Etcd)
redis_server = _fixture(Redis)
postgres_server = _fixture(Postgres)
mariadb_server = _fixture(Mariadb)
kafka_server = _fixture(Kafka)
rabbitmq_server = _fixture(Rabbitmq)
nats_server = _fixture(Nats)
mosquitto_server = _fixture(Mosquitto)
