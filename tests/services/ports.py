"""Ports for servers, given to one test process at a time."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_given: dict[int, socket.socket] = {}
"""With what keeps other test processes from choosing the same port, for as long as this one lives."""


def free_port() -> int:
    """A port that nobody uses, and that the system does not give to outgoing connections meanwhile."""
    first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    # Property tests seed the shared random numbers, and two processes must not walk the same way.
    for port in random.SystemRandom().sample(range(10_240, max(first_outgoing, 20_480)), 1000):
        if port not in _given and _is_free(port) and (claim := _claim(port)) is not None:
            _given[port] = claim
            return port
    raise RuntimeError("There is no free port.")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _claim(port: int) -> socket.socket | None:
    """A name that the system gives to one process, and takes back when it ends."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0dragoman-port-{port}")
    except OSError:
        claim.close()
        return None
    return claim
