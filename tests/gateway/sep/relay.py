"""A network between client and server that loses, repeats and reorders datagrams, and keeps copies."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

Address = tuple[str, int]


@dataclass
class Weather:
    """Shares of all datagrams. ``change`` may give another datagram, or none, for each."""

    loss: float = 0.0
    repetition: float = 0.0
    delay: float = 0.0
    """Seconds by which a datagram may be late at most, so that others overtake it."""
    change: Callable[[bytes], bytes | None] = field(default=lambda data: data)


class Relay(asyncio.DatagramProtocol):
    """Stands before a server: ``address`` is where clients send to."""

    def __init__(self, server: Address, weather: Weather | None = None, seed: int = 1) -> None:
        self.weather = weather or Weather()
        self.to_server: list[bytes] = []
        self.to_client: list[bytes] = []
        self._server = server
        self._chance = random.Random(seed)
        self._backs: dict[Address, asyncio.DatagramTransport] = {}
        self._front: Any = None
        self._tasks: set[asyncio.Future[None]] = set()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._front, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        return self

    async def __aexit__(self, *_: object) -> None:
        for back in self._backs.values():
            back.close()
        self._front.close()

    @property
    def address(self) -> Address:
        host, port = self._front.get_extra_info("sockname")[:2]
        return host, port

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self.to_server.append(data)
        task = asyncio.ensure_future(self._forward(data, addr))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, data: bytes, client: Address) -> None:
        if client not in self._backs:
            loop = asyncio.get_running_loop()
            back, _ = await loop.create_datagram_endpoint(
                lambda: _Back(self, client), remote_addr=self._server
            )
            if self._backs.setdefault(client, back) is not back:
                back.close()
        self._through(data, self._backs[client], None)

    def backwards(self, data: bytes, client: Address) -> None:
        self.to_client.append(data)
        self._through(data, self._front, client)

    def _through(self, data: bytes, way: asyncio.DatagramTransport, to: Address | None) -> None:
        weather = self.weather
        for _ in range(2 if self._chance.random() < weather.repetition else 1):
            if self._chance.random() < weather.loss:
                continue
            changed = weather.change(data)
            if changed is not None:
                late = self._chance.random() * weather.delay
                asyncio.get_running_loop().call_later(late, _send, way, changed, to)


def _send(way: asyncio.DatagramTransport, data: bytes, to: Address | None) -> None:
    """Unless the test is over meanwhile."""
    if not way.is_closing():
        way.sendto(data, to)


class _Back(asyncio.DatagramProtocol):
    def __init__(self, relay: Relay, client: Address) -> None:
        self._relay = relay
        self._client = client

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._relay.backwards(data, self._client)
