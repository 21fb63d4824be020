"""One topic and role in this program: who uses it, and what serves it at present."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from dragoman.topology.admin import Admin, TopicReceiver
from dragoman.topology.endpoint import Endpoint
from dragoman.topology.outlet import Outlet
from dragoman.topology.presence import Availability, Change, Presence, Request
from dragoman.topology.reception import Reception
from dragoman.topology.settings import Setting, Settings, values
from dragoman.topology.timers import Timer
from dragoman.topology.topic import Role, Topic


@dataclass(eq=False, slots=True)
class Handler:
    """A sender or a receiver that runs. ``linked`` are the publishers that a receiver is connected to."""

    admin: Admin
    settings: Settings
    endpoint: Endpoint
    outlet: Outlet | None = None
    receiver: TopicReceiver | None = None
    linked: dict[str, Endpoint] = field(default_factory=dict)

    def serves(self, admin: Admin, settings: Settings) -> bool:
        return self.admin is admin and values(self.settings) == values(settings)

    async def close(self) -> None:
        if self.outlet is not None:
            await self.outlet.close()
        if self.receiver is not None:
            await self.receiver.close()


@dataclass(eq=False, slots=True)
class Slot:
    """Changed under ``lock`` alone, but for ``users``."""

    topic: Topic
    role: Role
    given: Mapping[str, str]
    package: str | None
    said: Mapping[str, Setting]
    reception: Reception | None = None
    users: list[Presence] = field(default_factory=list)
    handler: Handler | None = None
    suspended: bool = False
    """Its admin is in trouble, and no other takes the topic."""
    removal: Timer | None = None
    retry: Timer | None = None
    doubt: Timer | None = None
    apart: frozenset[str] = frozenset()
    """Endpoints on the other side that use another admin, as far as they were told of."""
    failures: int = 0
    why: str = "No admin has taken it yet."
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def ready(self) -> bool:
        return self.handler is not None and not self.suspended

    def join(self, user: Presence) -> None:
        """A new user is told at once what is there."""
        if self.removal is not None:
            self.removal.cancel()
            self.removal = None
        self.users.append(user)
        if self.ready:
            self.tell(Change.APPEARED, [user])
        user.recount_peers()

    def tell(self, change: Change, users: list[Presence] | None = None) -> None:
        handler = self.handler if change is not Change.GONE else None
        told = Availability(change, handler.admin.type if handler else None, self.why if not handler else "")
        for user in list(self.users) if users is None else users:
            if isinstance(user, Request):
                user.use(handler.outlet if handler else None, told.why)
            user.become(told)

    def tell_peers(self) -> None:
        for user in list(self.users):
            user.recount_peers()

    def cancel_timers(self) -> None:
        for timer in (self.removal, self.retry, self.doubt):
            if timer is not None:
                timer.cancel()
        self.removal = self.retry = self.doubt = None
