"""What everything of ours is called in RabbitMQ. A channel's name has no slash, so none of these collide."""

from __future__ import annotations

from dragoman.core.errors import ConfigurationError

CATALOG = "dragoman/catalog"
LONGEST = 255


def stream(channel: str, partition: int) -> str:
    return _checked(f"{channel}/{partition}")


def position(channel: str, partition: int, group: str, life: str) -> str:
    """Keeps how far a group is. A temporary group has a new one in each life."""
    return _checked(f"{channel}/{partition}/position/{group}{life and '/' + life}")


def claim(channel: str, partition: int, group: str) -> str:
    """Exclusive to the connection of the member that has this partition."""
    return _checked(f"{channel}/{partition}/claim/{group}")


def one_more(channel: str, number: int, group: str) -> str:
    """Exclusive to the connection of a member that may have one partition more than others."""
    return _checked(f"{channel}/extra/{number}/{group}")


def lead(channel: str, group: str) -> str:
    """Exclusive to the connection of the one active member of a group."""
    return _checked(f"{channel}/lead/{group}")


def crew(channel: str, group: str) -> str:
    """Every member consumes from it, so that they can be counted; it vanishes with the last one."""
    return _checked(f"{channel}/crew/{group}")


def charter(channel: str, group: str) -> str:
    """How a temporary group was founded."""
    return _checked(f"{channel}/charter/{group}")


def door(channel: str, group: str = "") -> str:
    """Held while a channel or the catalog is made or changed, or while a member joins a group."""
    return _checked(f"{channel}/door/{group}")


def delay(milliseconds: int) -> str:
    return f"dragoman/delay/{milliseconds}"


def _checked(name: str) -> str:
    if len(name.encode()) > LONGEST:
        raise ConfigurationError(
            f"{name!r} is too long a name for RabbitMQ.",
            next=f"Choose shorter channel and group names: together below {LONGEST - 50} bytes.",
        )
    return name
