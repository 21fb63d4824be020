"""What a sequence may be."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.client.arguments import at_least
from dragoman.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceOptions:
    """Limits of what is put together again: beyond them the parts go to the dead letters."""

    bytes: int = 64 * 1024 * 1024
    parts: int = 256
    """Also how many parts of unfinished sequences are held at once, beside the client's window."""
    timeout: float = 60.0
    """Seconds from the first part to the last."""

    def __post_init__(self) -> None:
        for name in ("bytes", "parts", "timeout"):
            at_least(name, getattr(self, name), 0, whole=name != "timeout")
            if getattr(self, name) <= 0:
                raise ConfigurationError(
                    f"The option {name} is {getattr(self, name)}.", next="Use a number above 0."
                )
