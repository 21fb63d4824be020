"""The store port: tickets of requests, responses that wait, and keys. Shared by all gateways on one store."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Collect(StrEnum):
    """What becomes of a response that was collected.

    A collector is known by its collection id. Until it has confirmed a response, or the time of the
    response is over, the response stays, and the same collector gets it again.
    """

    ONCE = "once"
    """No other collector gets it. A collector without an id cannot be recognised: then it is as ``LEASE``."""
    LEASE = "lease"
    """Other collectors get it when the lease is over and it was not confirmed."""
    KEEP = "keep"
    """It stays until its time is over, for all collectors. Confirming it has no effect."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """One request, known by a hash of what its response is found by: owner, client, request and entity."""

    key: str
    digest: str
    """A hash of what was asked: the same key with another digest is a contradiction."""
    at: float
    expires: float


@dataclass(frozen=True, slots=True)
class Claim:
    """``mine``: nobody had this ticket, or whoever had it is gone. Else what is known of it."""

    mine: bool
    digest: str = ""
    outcome: str = ""
    """What came of it; empty while it is being done."""


@dataclass(frozen=True, slots=True)
class Held:
    """A response that waits to be collected."""

    owner: str
    client: str
    request: str
    entity: str
    level: str
    token: str
    """The keyed hash of the original token."""
    collect: Collect
    lease: float
    expires: float
    body: str
    """The envelope as JSON, as the client will get it."""

    @property
    def place(self) -> Place:
        return Place(self.client, self.request)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client looks for the response to a request."""

    client: str
    request: str


@dataclass(frozen=True, slots=True)
class StoredKey:
    """An API key. Only the hash of its secret is kept."""

    id: str
    owner: str
    secret: str
    resources: tuple[str, ...] = ()
    created: float = 0.0
    expires: float | None = None


def leased_until(held: Held, now: float, collector: str) -> float:
    """When others may take a response that this collector takes now."""
    if held.collect is Collect.ONCE and collector:
        return held.expires
    return now + held.lease


def in_parts(places: Collection[Place], size: int) -> Iterator[Sequence[Place]]:
    """Some at a time."""
    found = list(places)
    for start in range(0, len(found), size):
        yield found[start : start + size]


class Store(Protocol):
    """Safe for many tasks of one event loop, and for many gateways at once.

    What a write has returned from is as durable as the store can make it. Times are seconds since the epoch,
    given by the caller. Raises ``NotNow`` when the store cannot be reached.
    """

    async def open(self) -> None:
        """Make tables and the like, if they are missing."""

    async def close(self) -> None: ...

    async def claim(self, ticket: Ticket, *, stale: float) -> Claim:
        """Take the ticket if nobody has it. One without an outcome that is older than ``stale`` counts as
        nobody's: whoever had it has died. One of several who claim at once gets it. A ticket that somebody
        has is remembered for as long as this one would be: it may be valid for longer than the first."""

    def settle(self, key: str, outcome: str) -> Future[None]:
        """Say what came of it: begun at once, whether or not it is waited for."""

    async def release(self, key: str) -> None:
        """Give a ticket back that has no outcome."""

    async def hold(self, held: Held, now: float) -> bool:
        """Keep a response; ``False`` if there is one already, which then stays."""

    async def find(self, place: Place, now: float, collector: str = "") -> Sequence[Held]:
        """Responses at this place that are not expired, and are free or leased to this collector.

        The oldest comes first. An empty ``collector`` is no collector."""

    async def take(self, held: Held, now: float, collector: str = "") -> bool:
        """Lease it to this collector, as its mode says. ``False`` if another collector has it.

        Of several that come at once, one succeeds. Nothing is deleted."""

    async def done(self, held: Held, collector: str = "") -> bool:
        """Forget it if this collector has taken it. Whether it was there.

        Collectors without an id count as one. A response of the mode ``KEEP`` stays."""

    async def leased(self, place: Place, now: float) -> Sequence[Held]:
        """Responses at this place that are leased."""

    async def present(self, places: Collection[Place], now: float) -> set[Place]:
        """At which of these places something can be collected."""

    async def waiting(self, owner: str, most: int, now: float) -> int:
        """How many responses of an owner are not collected yet; the count may end at ``most``."""

    async def sweep(self, now: float) -> int:
        """Forget what has expired; how many responses that were."""

    async def add_key(self, key: StoredKey) -> None: ...

    async def key(self, id: str) -> StoredKey | None: ...

    async def keys(self) -> Sequence[StoredKey]: ...

    async def revoke_key(self, id: str) -> bool: ...
