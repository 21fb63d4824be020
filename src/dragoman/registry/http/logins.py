"""A budget of wrong passwords for each address, and a short queue for the checks of passwords.

Stretching a password is slow on purpose. Without a budget a stranger could keep every check busy with wrong
passwords, and could guess as fast as the server can check.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.types import Scope

from dragoman.registry.refusals import too_many_logins

_PERIOD_S = 60.0
"""The time in which an address gets its whole budget back."""
_AT_ONCE = 2
"""Passwords that are checked at once."""
_BUSY_S = 1.0
"""When to come again if too many wait, from whatever address."""
_MOST_ADDRESSES = 10_000


@dataclass(slots=True)
class Turn:
    """One check. It costs the address a part of its budget, unless the caller finds the password ``good``."""

    good: bool = False


class Logins:
    """Every check takes its part of the address' budget before it begins, so that many at once count too."""

    def __init__(self, budget: int, waiting: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._budget = budget
        self._most_waiting = waiting
        self._clock = clock
        self._waiting = 0
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._spent: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """For each address what it has spent, and when that was true. The one seen longest ago is first."""

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[Turn]:
        """Wait for a turn. Raises ``Forbidden`` with ``registry.too-many-logins`` instead of waiting long."""
        self._take(address)
        turn = Turn()
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            yield turn
        finally:
            self._slots.release()
            if turn.good:
                self._give_back(address)

    def _take(self, address: str) -> None:
        spent = self._spent_by(address)
        if spent + 1 > self._budget:
            raise too_many_logins((spent + 1 - self._budget) * _PERIOD_S / self._budget)
        if self._waiting >= self._most_waiting:
            raise too_many_logins(_BUSY_S)
        self._note(address, spent + 1)

    def _give_back(self, address: str) -> None:
        self._note(address, max(0.0, self._spent_by(address) - 1))

    def _spent_by(self, address: str) -> float:
        spent, then = self._spent.get(address, (0.0, 0.0))
        return max(0.0, spent - (self._clock() - then) * self._budget / _PERIOD_S)

    def _note(self, address: str, spent: float) -> None:
        self._spent[address] = (spent, self._clock())
        self._spent.move_to_end(address)
        if len(self._spent) > _MOST_ADDRESSES:
            self._spent.popitem(last=False)


def address_of(scope: Scope) -> str:
    """The address that a request comes from. With IPv6, the network that one customer gets."""
    host = scope["client"][0] if scope.get("client") else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address.packed[:8] + bytes(8), 64)))
    return host
