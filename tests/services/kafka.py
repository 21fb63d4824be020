"""Apache Kafka in KRaft mode, from its jars: one node that is broker and controller."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from dragoman.testing.proxy import Proxy
from tests.services.java import QUICK, reading, words
from tests.services.ports import free_port
from tests.services.server import Server, ServiceUnavailable, install

VERSION = "4.1.0"
JARS = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dragoman" / f"kafka-{VERSION}"
ARCHIVE = JARS / "classes.jsa"

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>dragoman</groupId><artifactId>kafka-jars</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
"""


class Kafka(Server):
    program = "java"
    package = "openjdk-17-jre-headless"
    java_options: str | None = None

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.controller_port = free_port()
        self.proxied_port = free_port()
        self.proxy_port = free_port()

    @property
    def url(self) -> str:
        return f"kafka://127.0.0.1:{self.port}"

    @classmethod
    def executable(cls) -> str:
        java = super().executable()
        if not JARS.exists():
            cls._fetch()
        return java

    @classmethod
    def _fetch(cls) -> None:
        """All jars by Maven, into a cache of the user's: the tests' first run takes a minute."""
        if shutil.which("mvn") is None:
            install("maven")
        partial = JARS.with_name(f"{JARS.name}.{os.getpid()}")
        partial.mkdir(parents=True)
        (partial / "pom.xml").write_text(_POM)
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
        done = subprocess.run(
            ["mvn", "-q", "-B", "-f", partial / "pom.xml", goal, f"-DoutputDirectory={partial}"],
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            shutil.rmtree(partial)
            raise ServiceUnavailable(f"Maven could not fetch Kafka {VERSION}: {done.stdout[-500:]}")
        partial.rename(JARS)

    def settings(self) -> dict[str, str]:
        # Kafka tells clients where to find it: those that come through the proxy are told the proxy's port.
        ports = {
            "PLAINTEXT": self.port,
            "PROXIED": self.proxied_port,
            "CONTROLLER": self.controller_port,
        }
        advertised = {"PLAINTEXT": self.port, "PROXIED": self.proxy_port}
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": _addresses(ports),
            "advertised.listeners": _addresses(advertised),
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            "group.consumer.min.heartbeat.interval.ms": "100",
            "group.consumer.heartbeat.interval.ms": "300",
            "group.coordinator.rebalance.protocols": "classic,consumer",
            "auto.create.topics.enable": "false",
            # After a kill it waits so long until its former self counts as gone.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "log.cleaner.backoff.ms": "500",
        }

    def users(self) -> Sequence[str]:
        """Who may sign in by SCRAM, as the tool that formats the storage wants it."""
        return ()

    def prepare(self) -> None:
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in self.settings().items()))
        identity = "ZHJhZ29tYW4ta2Fma2EtMQ"
        users = [argument for user in self.users() for argument in ("--add-scram", user)]
        tool = [*self._java(), "kafka.tools.StorageTool", "format"]
        subprocess.run(
            [*tool, "-t", identity, "-c", str(self._settings), *users], check=True, capture_output=True
        )

    def command(self) -> Sequence[str]:
        return (*self._java(), "kafka.Kafka", str(self._settings))

    def answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0})
        try:
            return bool(admin.list_topics(timeout=2).brokers)
        except KafkaException as error:
            raise OSError from error

    def proxy(self) -> Proxy:
        """One at a time: its port is the one that the server tells."""
        return Proxy(self.url, port=self.proxy_port, target=self.proxied_port)

    def _java(self) -> tuple[str, ...]:
        java = self.executable()
        options = reading(ARCHIVE) if self.java_options is None else self.java_options
        return (java, "-Xmx512m", "-Xms256m", *words(f"{QUICK} {options}"), "-cp", f"{JARS}/*")

    @property
    def _settings(self) -> Path:
        return self.data.with_suffix(".properties")


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
