"""Where requests come from, also if proxies stand in between: only what a trusted proxy says is believed."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.core.errors import ConfigurationError

VARIABLE = "FORWARDED_ALLOW_IPS"
LOOPBACK = "127.0.0.0/8,::1"
_LONGEST_ADDRESS = 64
_MOST_HOPS = 32
"""Proxies between a client and the server. What stands further left in the header is not read."""
_IPV6_BITS = (48, 64)

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Proxies:
    """The proxies whose headers are believed. By default there is none, not on this machine either."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    all: bool = False
    """Every peer is a proxy, but no address in a header is: the last entry is the client."""

    @classmethod
    def read(cls, text: str) -> Proxies:
        """Addresses and networks with commas between them, or ``*``. Raises ``ConfigurationError``."""
        names = [name.strip() for name in text.split(",") if name.strip()]
        if names == ["*"]:
            return cls(all=True)
        networks = []
        for name in names:
            try:
                networks.append(ipaddress.ip_network(name, strict=False))
            except ValueError:
                raise ConfigurationError(
                    f"{name!r} in {VARIABLE} is no proxy.",
                    code="configuration.proxies",
                    next="Name addresses or networks, for example 10.0.0.7,10.1.0.0/16,::1",
                ) from None
        return cls(tuple(networks))

    @classmethod
    def named(cls, default: str = "") -> Proxies:
        """Those in the environment. Raises ``ConfigurationError``."""
        return cls.read(os.environ.get(VARIABLE, default))

    def __contains__(self, address: Address) -> bool:
        return any(address in network for network in self.networks)

    def client(self, peer: str, forwarded: str) -> str | None:
        """Who asks, if ``peer`` is a trusted proxy: the last address in the header that is none itself.

        Each proxy adds to the right the address that it sees, so what stands further left may be a lie.
        """
        at = parse(peer)
        if not self.all and (at is None or at not in self):
            return None
        found = None
        for text in reversed(forwarded.rsplit(",", _MOST_HOPS)[-_MOST_HOPS:]):
            address = parse(_without_port(text.strip()))
            if address is None:
                break
            found = str(address)
            if address not in self:
                break
        return found


class Forwarded:
    """Gives the application the address and the scheme that a client has before its proxies."""

    def __init__(self, app: ASGIApp, proxies: Proxies) -> None:
        self._app = app
        self._proxies = proxies
        self._believes = proxies.all or bool(proxies.networks)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._believes and scope["type"] == "http":
            self._apply(scope)
        await self._app(scope, receive, send)

    def _apply(self, scope: Scope) -> None:
        peer = scope["client"][0] if scope.get("client") else ""
        at = parse(peer)
        if not self._proxies.all and (at is None or at not in self._proxies):
            return
        said = _values(scope, b"x-forwarded-for")
        client = self._proxies.client(peer, ",".join(said))
        if client is not None:
            scope["client"] = (client, 0)
        schemes = _values(scope, b"x-forwarded-proto")
        if schemes and schemes[-1].strip() in ("http", "https"):
            scope["scheme"] = schemes[-1].strip()


def parse(text: str) -> Address | None:
    """An address as it is compared: without a zone, and as IPv4 if it stands for one."""
    if len(text) > _LONGEST_ADDRESS:
        return None
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def networks_of(host: str) -> tuple[str, ...]:
    """Where a client is, the widest network first: what one site has, and what one customer has.

    With IPv6 these are networks of 48 and of 64 bits. With IPv4 it is the address alone.
    """
    address = parse(host)
    if address is None:
        return (host,)
    if isinstance(address, IPv6Address):
        return tuple(str(ipaddress.ip_network((address, bits), strict=False)) for bits in _IPV6_BITS)
    return (str(address),)


def network_of(host: str) -> str:
    """What one customer has: an address of IPv4, or with IPv6 a network of 64 bits."""
    return networks_of(host)[-1]


def _without_port(text: str) -> str:
    """``192.0.2.1:4711`` and ``[2001:db8::1]:4711`` are written by some proxies."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    host, colon, port = text.partition(":")
    return host if colon and port.isdecimal() else text


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]
