"""Mosquitto that keeps sessions and messages on disk."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from tests.services.server import Server

_HELLO_AND_GOODBYE = b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00" + b"\xe0\x00"


class Mosquitto(Server):
    program = "mosquitto"
    package = "mosquitto"

    def __init__(self, data: Path, **settings: str) -> None:
        """``settings`` are mosquitto's own, beside or instead of ours."""
        super().__init__(data)
        self._given = settings

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        settings = {
            "listener": f"{self.port} 127.0.0.1",
            "allow_anonymous": "true",
            "persistence": "true",
            "persistence_location": f"{self.data}/",
            "autosave_on_changes": "true",
            "autosave_interval": "250",
            "max_queued_messages": "0",
            "max_inflight_messages": "0",
            "set_tcp_nodelay": "true",
        }
        if os.geteuid() == 0:
            settings["user"] = "root"
        settings |= self._given
        self._settings.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))

    def command(self) -> Sequence[str]:
        return (self.executable(), "-c", str(self._settings))

    def answers(self) -> bool:
        """It hangs up when it is told goodbye. Until then it would count us as somebody who is there."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(_HELLO_AND_GOODBYE)
            # A server that wants encryption does not understand, and hangs up, too.
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(4096):
                    pass
        return True

    @property
    def _settings(self) -> Path:
        return self.data.with_suffix(".conf")
