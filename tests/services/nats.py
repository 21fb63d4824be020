"""NATS with JetStream."""

from __future__ import annotations

from collections.abc import Sequence

from tests.services.server import Server


class Nats(Server):
    program = "nats-server"
    package = "nats-server"

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        return (self.executable(), "-js", "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self.data))

    def answers(self) -> bool:
        return self.accepts()
