"""etcd, one member."""

from __future__ import annotations

import urllib.request
from collections.abc import Sequence

from tests.services.ports import free_port
from tests.services.server import Server


class Etcd(Server):
    program = "etcd"
    package = "etcd-server"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        peer = f"http://127.0.0.1:{free_port()}"
        return (
            self.executable(),
            f"--data-dir={self.data}/member",
            f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls={peer}",
        )

    def answers(self) -> bool:
        with urllib.request.urlopen(f"{self.url}/health", timeout=30) as reply:
            return reply.status == 200
