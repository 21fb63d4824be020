"""Admins and discoveries from their URLs."""

from __future__ import annotations

from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import BROKERS, names, redacted, scheme_of
from dragoman.topology.admin import Admin
from dragoman.topology.admins.broker import BrokerAdmin
from dragoman.topology.admins.multicast.admin import MulticastAdmin
from dragoman.topology.discovery import Discovery
from dragoman.topology.signing import Signer

POSSIBLE_ADMINS = frozenset({*names(BROKERS), MulticastAdmin.type})


def open_admin(url: str, serializers: frozenset[str], *, signed: bool = False) -> Admin:
    """``multicast://`` or any broker's URL. ``signed``: this program has an identity."""
    if scheme_of(url) == MulticastAdmin.type:
        return MulticastAdmin(url, serializers, signed=signed)
    return BrokerAdmin(url, serializers)


def open_discovery(url: str, signer: Signer | None = None) -> Discovery:
    """``etcd://``, ``etcds://`` (with TLS) or ``file://``."""
    match scheme_of(url):
        case "etcd" | "etcds":
            from dragoman.topology.etcd.discovery import EtcdDiscovery

            return EtcdDiscovery(url, signer=signer)
        case "file":
            from dragoman.topology.static import StaticDiscovery

            return StaticDiscovery(url)
    raise ConfigurationError(
        f"{redacted(url)!r} is not a discovery.", next="Use etcd://host:2379, etcds:// or file://path."
    )
