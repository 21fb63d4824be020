"""The brokers that are soaked, by scheme, each with its server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.services.kafka import Kafka
from tests.services.mosquitto import Mosquitto
from tests.services.nats import Nats
from tests.services.rabbitmq import Rabbitmq
from tests.services.redis import Redis
from tests.services.server import Server

SERVERS: Mapping[str, type[Server]] = {
    "kafka": Kafka,
    "rabbitmq": Rabbitmq,
    "nats": Nats,
    "mqtt": Mosquitto,
    "redis": Redis,
}
SCHEMES = ("embedded", *SERVERS)


def embedded(folder: Path) -> str:
    """Members that die are noticed by their locks; a long lease keeps a slow machine from losing one."""
    return f"embedded://{folder / 'broker'}?lease=60&handover=5"
