"""RabbitMQ as a node of its own, with its own Erlang cookie and no distribution beyond this machine."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.services.ports import free_port
from tests.services.server import Server


class Rabbitmq(Server):
    program = "rabbitmq-server"
    package = "rabbitmq-server"
    folders = ("/usr/lib/rabbitmq/bin",)

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.distribution_port = free_port()
        self.mapper_port = free_port()

    @property
    def url(self) -> str:
        return f"rabbitmq://guest:guest@127.0.0.1:{self.port}/"

    def prepare(self) -> None:
        settings = {
            "listeners.tcp.default": f"127.0.0.1:{self.port}",
            "loopback_users": "none",
            "vm_memory_high_watermark.absolute": "1GB",
            "disk_free_limit.absolute": "50MB",
        }
        self._settings.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
        self.data.with_suffix(".plugins").write_text("[].\n")

    def command(self) -> Sequence[str]:
        return (self.executable(),)

    def environment(self) -> Mapping[str, str]:
        return {
            "HOME": str(self.data),
            "ERL_EPMD_PORT": str(self.mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"dragoman{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self.distribution_port),
            "RABBITMQ_CONFIG_FILE": str(self._settings),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.data.with_suffix(".plugins")),
            "RABBITMQ_MNESIA_BASE": str(self.data / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.data / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(self.data / "pid"),
        }

    def start(self) -> None:
        """A node that is killed within minutes of its first stream forgets who coordinates streams.

        It writes that down lazily, once in its life. Here it gets a stream and is told to do so at once.
        """
        super().start()
        self.evaluate(
            '{new, _} = rabbit_amqqueue:declare(rabbit_misc:r(<<"/">>, queue, <<"first">>), true, false,'
            ' [{<<"x-queue-type">>, longstr, <<"stream">>}], none, <<"guest">>),'
            "#{names := #{directory_rev := Names}} = ra_system:fetch(coordination),"
            "ok = dets:sync(Names).\n"
        )

    def evaluate(self, expression: str) -> None:
        """Have the node run a line of Erlang."""
        node = f"dragoman{self.port}@localhost"
        done = subprocess.run(
            ["erl_call", "-sname", node, "-c", self._cookie, "-e"],
            input=expression.encode(),
            env={**os.environ, **self.environment()},
            capture_output=True,
            timeout=60,
        )
        if done.returncode or not done.stdout.startswith(b"{ok"):
            raise RuntimeError(f"RabbitMQ did not run it: {done.stdout!r} {done.stderr!r}")

    @property
    def _cookie(self) -> str:
        return (self.data / ".erlang.cookie").read_text()

    def answers(self) -> bool:
        """It speaks AMQP: a wrong header is answered with the right one."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(b"NOPE\0\0\0\0")
            return connection.recv(8)[:4] == b"AMQP"

    def stop(self) -> None:
        """The port mapper is a daemon of Erlang's and ends only when told to."""
        super().stop()
        mapper = {**os.environ, **self.environment()}
        subprocess.run(["epmd", "-kill"], env=mapper, capture_output=True)

    @property
    def _settings(self) -> Path:
        return self.data.with_suffix(".conf")
