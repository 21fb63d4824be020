"""Connections that are counted before their TLS handshake.

Event loops make a connection known to its protocol only when TLS is established. Until then it has a socket
that no limit would see. So the server listens without TLS, and TLS is put between socket and protocol here.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio import sslproto
from collections.abc import Callable
from importlib import import_module
from typing import Any

from dragoman.registry.http.connections import BoundedProtocol

_NO_LIMIT_S = 7 * 24 * 3600.0
"""The loop would also count the time in which the client reads the last answer, which has its own limit."""


def counted(
    loop: asyncio.AbstractEventLoop, create: Callable[[], BoundedProtocol], context: ssl.SSLContext
) -> Callable[[], asyncio.BaseProtocol]:
    """A factory of protocols that do the handshake, and hand the data inside to those of ``create``."""
    layer = _layer(loop)

    class Tls(layer):  # type: ignore[valid-type,misc]
        def __init__(self, inside: BoundedProtocol) -> None:
            seconds = inside.limits.head_s
            super().__init__(
                loop,
                inside,
                context,
                None,
                server_side=True,
                ssl_handshake_timeout=seconds,
                # The protocol closes the socket when the client does not.
                ssl_shutdown_timeout=_NO_LIMIT_S,
            )
            self._counted = inside

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._counted.socket_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._counted.socket_lost()

    return lambda: Tls(create())


def _layer(loop: asyncio.AbstractEventLoop) -> type[Any]:
    """What the loop itself would put there."""
    if type(loop).__module__.partition(".")[0] == "uvloop":
        found: type[Any] = import_module("uvloop.loop").SSLProtocol
        return found
    return sslproto.SSLProtocol
