"""One delivery of one message, on its way through middleware to an endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from dragoman.core.contract import ContractVersion
from dragoman.core.message import Message


@dataclass(frozen=True, slots=True)
class Route:
    """How messages of one schema reach one endpoint. Made once per schema, used for each message."""

    endpoint: str
    """The endpoint's full name, as logs and dead letters show it."""
    group: str
    decode: Callable[[bytes | None], Any]
    """From the frame to the value."""
    version: ContractVersion | None = None
    """The writer's version, where the channel has a contract."""
    read_key: Callable[[bytes | None], Any] | None = None
    pause: Callable[[float], Awaitable[bool]] | None = None
    """Rest so many seconds; ``False`` at once when the client is closing."""
    by_position: bool = True
    """Messages that have no id may be told apart by where they stand in their channel."""


class Delivery:
    """``value`` is the decoded payload, ``key`` the key as the endpoint wants it.

    ``attempt`` counts the calls of the handler in this delivery; ``failure`` is the last error it raised,
    ``failed_at`` the time of the first one in milliseconds. Middleware may leave things for others in
    ``notes``.
    """

    __slots__ = ("_notes", "attempt", "failed_at", "failure", "key", "message", "route", "value")

    def __init__(self, message: Message, route: Route) -> None:
        self.message = message
        self.route = route
        self.attempt = 1
        self.failure: BaseException | None = None
        self.failed_at: int | None = None
        self.value: Any = None
        self.key: Any = None
        self._notes: dict[str, Any] | None = None

    @property
    def size(self) -> int:
        """How many messages it stands for."""
        return 1

    def decode(self) -> None:
        """Read payload and key, anew each time: an earlier attempt may have changed what it was given."""
        route = self.route
        self.value = route.decode(self.message.payload)
        if route.read_key is not None:
            self.key = route.read_key(self.message.key)

    async def pause(self, seconds: float) -> bool:
        """For middleware that lets a message wait; ``False`` at once when the client is closing.

        The partition waits with it, so order holds. On ``False``, give ``again()``.
        """
        if self.route.pause is not None:
            return await self.route.pause(seconds)
        await asyncio.sleep(seconds)
        return True

    @property
    def endpoint(self) -> str:
        return self.route.endpoint

    @property
    def notes(self) -> dict[str, Any]:
        if self._notes is None:
            self._notes = {}
        return self._notes

    def place(self) -> dict[str, Any]:
        """Where this is, for logs and errors. Never the payload."""
        message, version = self.message, self.route.version
        found: dict[str, Any] = {
            "channel": message.channel,
            "partition": message.partition,
            "offset": message.offset,
            "group": self.route.group,
            "endpoint": self.route.endpoint,
        }
        if version is not None:
            found |= {"contract": version.contract, "contract_version": version.version}
        return found
