"""Redis with its log on disk at every write."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from tests.services.server import Server


class Redis(Server):
    program = "redis-server"
    package = "redis-server"

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        settings = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self.data),
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
        }
        return (
            self.executable(),
            *(word for name, value in settings.items() for word in (f"--{name}", value)),
        )

    def answers(self) -> bool:
        return self.ask(b"PING\r\n") == b"+PONG\r\n"

    def ask(self, line: bytes) -> bytes:
        """One inline command, for tests of the kit itself."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(line)
            return connection.recv(4096)
