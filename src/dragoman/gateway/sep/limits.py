"""How much one side lets the other use."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.core.errors import ConfigurationError
from dragoman.gateway.sep.message import MOST_PARTS, PART_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class SepLimits:
    """Of a server, where nothing else is said. Times are in seconds."""

    message: int = 1024 * 1024
    """Bytes of a message, of a client and of a server."""
    streams: int = 64
    """Requests of one session that are not answered yet, of a client and of a server."""
    sessions: int = 10_000
    """The session that was silent longest and has no request under way gives way to a new one."""
    sessions_per_host: int = 1_000
    """Of one address, or one /64 network of IPv6. With more, one of its own sessions gives way."""
    unproven: int = 256
    """Sessions whose peer did not prove its address yet. With more, a cookie is asked for."""
    openings: int = 500
    """First datagrams without a good cookie that are looked at per second. Each costs a key exchange."""
    openings_per_host: int = 100
    """The same for one host."""
    requests: int = 4096
    """Requests of all sessions that are worked on at once."""
    assembling: int = 64 * 1024 * 1024
    """Bytes of messages that are not whole yet, of all sessions. Each part counts as a full one."""
    idle: float = 60.0
    """After this long without a datagram a session is forgotten, and a message that is not whole, too."""
    window: float = 120.0
    """How far a client's clock may be behind, and how long its first datagrams are remembered."""
    seen: int = 100_000
    """First datagrams that are remembered."""
    cookie: float = 30.0
    """How long a cookie is good, for the session that it was made for."""
    patience: float = 30.0
    """How long an answer is sent again before its client is given up."""

    def __post_init__(self) -> None:
        if not 0 < self.message <= MOST_PARTS * PART_BYTES:
            raise ConfigurationError(
                f"A SEP message cannot have {self.message:,} bytes.",
                next=f"Allow at most {MOST_PARTS * PART_BYTES:,}.",
            )
