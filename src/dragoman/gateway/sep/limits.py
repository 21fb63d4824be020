"""How much one side lets the other use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SepLimits:
    """Of a server, where nothing else is said. Times are in seconds."""

    message: int = 1024 * 1024
    """Bytes of a message, of a client and of a server."""
    streams: int = 64
    """Requests of one session that are not answered yet, of a client and of a server."""
    sessions: int = 10_000
    """The session that was silent longest gives way to a new one."""
    unproven: int = 256
    """Sessions whose peer did not prove its address yet. With more, a cookie is asked for."""
    assembling: int = 64 * 1024 * 1024
    """Bytes of messages that are not whole yet, of all sessions."""
    idle: float = 60.0
    """After this long without a datagram, a session is forgotten."""
    window: float = 120.0
    """How far a client's clock may be off, and how long its first datagrams are remembered."""
    seen: int = 100_000
    """First datagrams that are remembered."""
    cookie: float = 3600.0
    """How long a cookie is good."""
    patience: float = 30.0
    """How long an answer is sent again before its client is given up."""
