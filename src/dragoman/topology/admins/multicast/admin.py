"""``multicast://``: high-rate data to everyone on the network, without a broker and without promises."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from ipaddress import IPv4Network
from urllib.parse import urlsplit

from dragoman.core.ending import end
from dragoman.core.errors import BrokerUnavailable, ConfigurationError
from dragoman.core.options import positive, positive_int, read_options
from dragoman.topology.admin import Inlet, Wanted
from dragoman.topology.admins.multicast.datagram import HEAD, LARGEST_DATAGRAM, topic_hash
from dragoman.topology.admins.multicast.receiver import MulticastReceiver
from dragoman.topology.admins.multicast.seals import SEAL_BYTES, Sealer
from dragoman.topology.admins.multicast.sender import MulticastSender
from dragoman.topology.admins.multicast.sockets import Group, Listener, Network, Outgoing
from dragoman.topology.scoring import Profile, Score, weigh
from dragoman.topology.settings import SERIALIZER

QOS = {"sample": 70, "control": 30}
TICK = 0.1
DEFAULT_NETWORK = "239.255.42.0/24"
LOOK = 2.0
"""Seconds between two looks for a network interface that was not there."""


def _port(text: str) -> int:
    port = positive_int(text)
    if port > 65535:
        raise ValueError("ports end at 65535.")
    return port


_OPTIONS: dict[str, Callable[[str], object]] = {
    "port": _port,
    "interface": str,
    "ttl": positive_int,
    "size": positive_int,
    "largest": positive_int,
    "groups": positive_int,
    "buffer": positive_int,
    "heartbeat": positive,
}


class MulticastAdmin:
    """``multicast://239.255.42.0/24?interface=eth0``: topics are spread over groups of that network.

    Options: ``port`` (5452), ``interface``, ``ttl`` (1 hop), ``size`` of a datagram (1400), ``largest``
    message (1 MiB), ``groups`` (16), ``buffer`` of a socket (8 MiB), ``heartbeat`` seconds of an idle sender
    (2).
    Order holds within a sender as far as the network keeps it; what is lost is counted, never repeated.
    """

    type = "multicast"

    def __init__(self, url: str, serializers: frozenset[str], *, signed: bool = False) -> None:
        """``signed``: the program has an identity, so what it sends shows that it has sent it."""
        options = read_options(url, _OPTIONS)
        self.url = url
        self._signed = signed
        self._network = Network(
            options.get("interface"), options.get("ttl", 1), options.get("buffer", 8 * 1024 * 1024)
        )
        self._size = min(options.get("size", 1400), LARGEST_DATAGRAM)
        self._largest: int = options.get("largest", 1024 * 1024)
        self._port: int = options.get("port", 5452)
        self._heartbeat: float = options.get("heartbeat", 2.0)
        self._addresses = _addresses(url, options.get("groups", 16))
        least = HEAD.size + (SEAL_BYTES if signed else 0)
        if self._size <= least:
            raise ConfigurationError(
                f"A datagram of {self._size} bytes has no room.", next=f"Use more than {least}.", url=url
            )
        self._profile = Profile(
            self.type, reliable=False, late_joiner=False, qos=QOS, serializers=serializers
        )
        self._listeners: dict[Group, Listener] = {}
        self._senders: list[MulticastSender] = []
        self._out: Outgoing | None = None
        self._beater: asyncio.Task[None] | None = None
        self._changed: Callable[[], None] = lambda: None
        self._trouble: str | None = "It is not started."

    @property
    def trouble(self) -> str | None:
        return self._trouble

    async def start(self, changed: Callable[[], None]) -> None:
        self._look()
        self._changed = changed
        self._beater = asyncio.create_task(self._beat(), name="dragoman multicast beats")

    def _look(self) -> None:
        try:
            self._out = Outgoing(self._network)
            self._trouble = None
        except BrokerUnavailable as error:
            self._trouble = str(error)

    def score(self, wanted: Wanted) -> Score:
        return weigh(self._profile, wanted.settings)

    async def sender(self, wanted: Wanted) -> MulticastSender:
        if self._out is None:
            raise BrokerUnavailable(self._trouble or "Multicast is closed.")
        address = self._addresses[topic_hash(wanted.topic.path) % len(self._addresses)]
        sender = MulticastSender(
            wanted.topic,
            Group(address, self._port),
            self._out,
            (self._size, self._largest),
            f"{wanted.topic.key}.{wanted.setting(SERIALIZER)}",
            self._senders.remove,
            Sealer() if self._signed else None,
        )
        self._senders.append(sender)
        return sender

    async def receiver(self, wanted: Wanted, inlet: Inlet) -> MulticastReceiver:
        return MulticastReceiver(wanted, inlet, self._largest, self._listen, self._leave, self._is_torn_down)

    def _is_torn_down(self) -> bool:
        """Whether the beats are cancelled. Only closing does that, or the end of the event loop."""
        return self._beater is not None and self._beater.cancelling() > 0

    def _listen(self, group: Group) -> Listener:
        found = self._listeners.get(group)
        if found is None:
            found = self._listeners[group] = Listener(group, self._network)
        return found

    def _leave(self, group: Group) -> None:
        listener = self._listeners[group]
        if not listener.used:
            listener.close()
            del self._listeners[group]

    async def _beat(self) -> None:
        idle_at = looked_at = time.monotonic()
        while True:
            await asyncio.sleep(TICK)
            now = time.monotonic()
            if self._out is None and now - looked_at >= LOOK:
                looked_at = now
                self._look()
                if self._trouble is None:
                    self._changed()
            idle = now - idle_at >= self._heartbeat
            if idle:
                idle_at = now
            stamp = int(time.time() * 1000)
            for sender in list(self._senders):
                sender.beat(stamp, idle)

    async def close(self) -> None:
        if self._beater is not None:
            await end(self._beater)
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()
        if self._out is not None:
            self._out.close()
            self._out = None


def _addresses(url: str, count: int) -> list[str]:
    parts = urlsplit(url)
    text = f"{parts.netloc}{parts.path}".rstrip("/") or DEFAULT_NETWORK
    try:
        network = IPv4Network(text)
        if not network.is_multicast:
            raise ValueError("it is not one of 224.0.0.0/4.")
    except ValueError as error:
        raise ConfigurationError(
            f"{text!r} is not a multicast network: {error}", next=f"For example multicast://{DEFAULT_NETWORK}"
        ) from error
    return [str(network[index]) for index in range(min(count, network.num_addresses))]
