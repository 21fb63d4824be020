"""The sockets of UDP multicast: one to send, and one for each group that is listened to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import NamedTuple

from dragoman.core.errors import BrokerUnavailable, ConfigurationError
from dragoman.topology.admins.multicast.course import Source
from dragoman.topology.admins.multicast.datagram import SEAL, Datagram, parse
from dragoman.topology.admins.multicast.seals import Sealed

AT_ONCE = 512
"""Datagrams read before other tasks have their turn."""


Take = Callable[[Datagram, Sealed | None, Source], None]
"""What is to become of a datagram, with its seal and the source that it came from."""


class Group(NamedTuple):
    address: str
    port: int

    @classmethod
    def of(cls, address: str, port: str) -> Group:
        """From an announcement, so it may be anything."""
        try:
            if not IPv4Address(address).is_multicast or not 0 < int(port) < 65536:
                raise ValueError
        except ValueError as error:
            raise ConfigurationError(
                f"{address!r}, port {port!r}, is not a multicast group.",
                code="topology.multicast-group",
                next="Its publisher announces something that cannot be.",
            ) from error
        return cls(address, int(port))


@dataclass(frozen=True, slots=True)
class Network:
    """How this machine takes part."""

    interface: str | None
    ttl: int
    buffer: int

    @property
    def index(self) -> int:
        if self.interface is None:
            return 0
        try:
            return socket.if_nametoindex(self.interface)
        except OSError as error:
            raise BrokerUnavailable(
                f"There is no network interface {self.interface!r}.",
                next="Name another one in the admin's URL: multicast://239.255.0.0/16?interface=eth0",
            ) from error

    def membership(self, address: str) -> bytes:
        return struct.pack("=4s4si", socket.inet_aton(address), b"\0" * 4, self.index)


def sending_socket(network: Network) -> socket.socket:
    made = _socket()
    try:
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, network.ttl)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        if network.interface is not None:
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, network.membership("0.0.0.0"))  # noqa: S104
        _enlarge(made, socket.SO_SNDBUF, network.buffer)
    except OSError as error:
        made.close()
        raise BrokerUnavailable(f"Multicast cannot be sent: {error.strerror}.") from error
    return made


def listening_socket(group: Group, network: Network) -> socket.socket:
    made = _socket()
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Bound to the group itself: datagrams of other groups on this port are not for us.
        made.bind(group)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, network.membership(group.address))
        _enlarge(made, socket.SO_RCVBUF, network.buffer)
    except OSError as error:
        made.close()
        raise BrokerUnavailable(
            f"The multicast group {group.address} cannot be joined: {error.strerror}.",
            next="Is there a network with multicast? Name it in the admin's URL: ?interface=eth0",
        ) from error
    return made


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


def _enlarge(made: socket.socket, which: int, size: int) -> None:
    """Beyond the system's limit where we may, else up to it."""
    forced = {socket.SO_RCVBUF: 33, socket.SO_SNDBUF: 32}[which]
    try:
        made.setsockopt(socket.SOL_SOCKET, forced, size)
    except OSError:
        made.setsockopt(socket.SOL_SOCKET, which, size)


class Outgoing:
    """The socket that all senders of a program share."""

    def __init__(self, network: Network) -> None:
        self._socket = sending_socket(network)
        self._loop = asyncio.get_running_loop()
        self._room: asyncio.Future[None] | None = None
        self.put = self._socket.sendto
        """Raises ``BlockingIOError`` when the system has no room for more at the moment."""

    async def room(self) -> None:
        """Until there is room again, for all who wait."""
        if self._room is None:
            self._room = self._loop.create_future()
            self._loop.add_writer(self._socket, self._has_room)
        await asyncio.shield(self._room)

    def _has_room(self) -> None:
        self._loop.remove_writer(self._socket)
        room, self._room = self._room, None
        if room is not None:
            room.set_result(None)

    def close(self) -> None:
        if self._room is not None:
            self._has_room()
        self._socket.close()


class Listener:
    """One group, shared by the topics that use it."""

    def __init__(self, group: Group, network: Network) -> None:
        self._socket = listening_socket(group, network)
        self._loop = asyncio.get_running_loop()
        self._topics: dict[int, list[Take]] = {}
        self._loop.add_reader(self._socket, self._read)

    def add(self, topic: int, take: Take) -> None:
        self._topics.setdefault(topic, []).append(take)

    def remove(self, topic: int, take: Take) -> None:
        self._topics[topic].remove(take)
        if not self._topics[topic]:
            del self._topics[topic]

    @property
    def used(self) -> bool:
        return bool(self._topics)

    def _read(self) -> None:
        receive, topics = self._socket.recvfrom, self._topics
        with contextlib.suppress(BlockingIOError):
            for _ in range(AT_ONCE):
                data, source = receive(65536)
                sealed = None
                for datagram in parse(data):
                    if datagram.kind == SEAL:
                        # Only in the first place: another one is passed over.
                        sealed = sealed or Sealed(datagram, data)
                        continue
                    for take in topics.get(datagram.topic, ()):
                        take(datagram, sealed, source)

    def close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()
