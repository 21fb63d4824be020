"""A channel: the route of messages, with the settings a broker keeps for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dragoman.core.errors import ConfigurationError

_FORBIDDEN = frozenset("/\\\0 \t\r\n*#>")
MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class Channel:
    """What is asked for when a channel is created, and what is found when it is described.

    ``partitions`` is the degree of parallel handling: order holds within a partition, and messages of
    one key share a partition. ``retention`` is in seconds, ``None`` keeps everything. ``settings`` are
    the broker's own, passed on as they are.
    """

    name: str
    partitions: int = 4
    retention: float | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.partitions < 1:
            raise ConfigurationError("A channel needs at least one partition.", channel=self.name)
        if self.retention is not None and not self.retention > 0:
            raise ConfigurationError(
                f"A retention of {self.retention:g} seconds keeps nothing.",
                next="Use a number above zero, or none to keep everything.",
                channel=self.name,
            )


def check_name(name: str) -> str:
    """A name that every broker can carry."""
    if (
        not isinstance(name, str)
        or not name
        or len(name) > MAX_NAME
        or _FORBIDDEN & set(name)
        or name in (".", "..")
    ):
        raise ConfigurationError(
            f"{name!r} is not a channel name.",
            code="configuration.channel-name",
            next=f"Use 1 to {MAX_NAME} characters, without blanks, slashes, '*', '#' and '>'.",
        )
    return name
