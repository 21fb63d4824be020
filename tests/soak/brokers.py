"""The brokers of the runs, by scheme, each with its server and the options of its URL."""

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
TITLES: Mapping[str, str] = {
    "embedded": "Embedded",
    "kafka": "Kafka",
    "rabbitmq": "RabbitMQ",
    "nats": "NATS",
    "mqtt": "MQTT",
    "redis": "Redis",
}
UNANSWERED = ("mqtt",)
"""Whose servers do not answer acknowledgements: nobody can see whether they were accepted."""

PATIENT: Mapping[str, str] = {
    # Members that die are noticed by their locks; a long lease keeps a slow machine from losing one.
    "embedded": "lease=60&handover=60",
    "kafka": "handover=60",
    "rabbitmq": "handover=60",
    "nats": "lease=60&handover=60",
    "mqtt": "",
    "redis": "lease=60&handover=60",
}
"""Nobody is taken for dead by mistake, however busy the machine is."""
QUICK: Mapping[str, str] = {
    "embedded": "lease=3&handover=5",
    "kafka": "session.timeout.ms=6000&heartbeat.interval.ms=500&handover=5",
    "rabbitmq": "heartbeat=2&handover=5",
    "nats": "lease=3&handover=5",
    "mqtt": "keep_alive=2",
    "redis": "lease=3&handover=5",
}
"""Members that hang are out after a few seconds."""


def url_of(scheme: str, server: str | None, folder: Path, *, quick_leases: bool) -> str:
    """``server`` is where the server is, or the proxy before it; ``None`` for the embedded broker."""
    options = (QUICK if quick_leases else PATIENT)[scheme]
    return f"{server or f'embedded://{folder}/broker'}{'?' if options else ''}{options}"
