"""A budget of wrong passwords for each address, and a short queue for the checks of passwords.

Stretching a password is slow on purpose. Without a budget a stranger could keep every check busy with wrong
passwords, and could guess as fast as the server can check.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.types import Scope

from dragoman.core.errors import Forbidden
from dragoman.registry.http.addresses import network_of
from dragoman.registry.refusals import too_many_logins, too_many_wrong_passwords

_PERIOD_S = 60.0
"""The time in which an address gets its whole budget back."""
_AT_ONCE = 2
"""Passwords that are checked at once."""
_BUSY_S = 1.0
"""When to come again if too many wait, from whatever address."""
_PATIENCE_S = 10.0
"""How long a login may wait."""
_MOST_ADDRESSES = 10_000
_MOST_IN_LINES = 1_000
"""Logins of all addresses together that wait until others of their address were checked."""


@dataclass(slots=True)
class Turn:
    """One check. It costs the address a part of its budget, unless the caller finds the password ``good``."""

    good: bool = False


class _Address:
    """The logins of one address: ``admitted`` ones, which may be checked, and the line of others."""

    __slots__ = ("admitted", "line")

    def __init__(self) -> None:
        self.admitted = 0
        self.line: deque[asyncio.Future[None]] = deque()


class Logins:
    """Wrong passwords cost a part of their address' budget, right ones cost nothing.

    Whether a password is right is known only after its check. So no more logins of an address are admitted
    than its budget would allow if all of them were wrong: a flood gets no further than that. The others wait
    in line until one that was right makes room, or until the budget is spent. While there is a line, at least
    one login is admitted, and its end looks after the line.
    """

    def __init__(
        self,
        budget: int,
        waiting: int,
        clock: Callable[[], float] = time.monotonic,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        """``waiting``: how many may wait for a check, and how many of one address in line before that."""
        self._budget = budget
        self._most_waiting = waiting
        self._clock = clock
        self._patience_s = patience_s
        self._waiting = 0
        self._in_lines = 0
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._addresses: dict[str, _Address] = {}
        """Those with logins at the moment."""
        self._spent: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """For each address what it has spent, and when that was true. The one seen longest ago is first."""

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[Turn]:
        """Wait for a turn. Raises ``Forbidden`` with ``registry.too-many-logins`` instead of waiting long."""
        try:
            async with asyncio.timeout(self._patience_s):
                await self._admission(address)
                try:
                    await self._slot()
                except BaseException:
                    self._leave(address)
                    raise
        except TimeoutError:
            raise too_many_logins(_BUSY_S) from None
        turn = Turn()
        try:
            yield turn
        finally:
            self._slots.release()
            if not turn.good:
                self._note(address, self._spent_by(address) + 1)
            self._leave(address)

    async def _admission(self, address: str) -> None:
        spent = self._spent_by(address)
        if spent + 1 > self._budget:
            raise self._spent_refusal(spent)
        if self._waiting >= self._most_waiting:
            raise too_many_logins(_BUSY_S)
        state = self._addresses.setdefault(address, _Address())
        if not state.line and spent + state.admitted + 1 <= self._budget:
            state.admitted += 1
            return
        if len(state.line) >= self._most_waiting or self._in_lines >= _MOST_IN_LINES:
            raise too_many_logins(_BUSY_S)
        await self._stand_in_line(address, state)

    async def _stand_in_line(self, address: str, state: _Address) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        state.line.append(place)
        self._in_lines += 1
        try:
            await place
        except BaseException:
            if place in state.line:
                state.line.remove(place)
            elif not place.cancelled() and place.exception() is None:
                # It was admitted, and gives up before it knows.
                self._leave(address)
            raise
        finally:
            self._in_lines -= 1

    async def _slot(self) -> None:
        if self._waiting >= self._most_waiting:
            raise too_many_logins(_BUSY_S)
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1

    def _leave(self, address: str) -> None:
        """An admitted login has ended: those in line are admitted or refused, as far as that is clear now."""
        state = self._addresses[address]
        state.admitted -= 1
        while state.line:
            spent = self._spent_by(address)
            refused = spent + 1 > self._budget
            if not refused and spent + state.admitted + 1 > self._budget:
                return
            place = state.line.popleft()
            if place.done():
                continue
            if refused:
                place.set_exception(self._spent_refusal(spent))
            else:
                state.admitted += 1
                place.set_result(None)
        if not state.admitted:
            del self._addresses[address]

    def _spent_refusal(self, spent: float) -> Forbidden:
        return too_many_wrong_passwords((spent + 1 - self._budget) * _PERIOD_S / self._budget)

    def _spent_by(self, address: str) -> float:
        spent, then = self._spent.get(address, (0.0, 0.0))
        return max(0.0, spent - (self._clock() - then) * self._budget / _PERIOD_S)

    def _note(self, address: str, spent: float) -> None:
        self._spent[address] = (spent, self._clock())
        self._spent.move_to_end(address)
        if len(self._spent) > _MOST_ADDRESSES:
            self._spent.popitem(last=False)


def address_of(scope: Scope) -> str:
    """Whose budget a request takes from."""
    return network_of(scope["client"][0]) if scope.get("client") else ""
