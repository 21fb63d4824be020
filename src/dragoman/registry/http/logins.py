"""Budgets of wrong passwords for networks, and a queue for checks of passwords that networks share.

Stretching a password is slow on purpose. Without a budget a stranger could keep every check busy with wrong
passwords, and could guess as fast as the server can check. Without turns, the queue would belong to whoever
sends most.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.types import Scope

from dragoman.core.errors import Forbidden
from dragoman.registry.http.addresses import networks_of
from dragoman.registry.limits import Limits
from dragoman.registry.refusals import too_many_logins, too_many_wrong_passwords

_PERIOD_S = 60.0
"""The time in which a network gets its whole budget back."""
_AT_ONCE = 2
"""Passwords that are checked at once."""
_BUSY_S = 1.0
"""When to come again if too many wait."""
_PATIENCE_S = 10.0
"""How long a login may wait."""
_MOST_NETWORKS = 10_000
"""Networks whose spending is remembered."""

Networks = Sequence[str]
"""Where a login comes from: an address, or networks that contain each other, the widest first."""


@dataclass(slots=True)
class Turn:
    """One check. It costs its networks a part of their budgets, unless the caller finds it ``good``."""

    good: bool = False


@dataclass(slots=True, eq=False)
class _Login:
    """One that waits. ``place`` gets a result when its check may begin, or the error that refuses it."""

    networks: Networks
    place: asyncio.Future[None]


class _Line:
    """Those that wait from one network: in the order they came, or in a line for each network inside."""

    __slots__ = ("budget", "logins", "parts", "waiting")

    def __init__(self, budget: int = 0) -> None:
        self.budget = budget
        self.waiting = 0
        self.logins: deque[_Login] = deque()
        self.parts: OrderedDict[str, _Line] = OrderedDict()
        """The network whose turn is next comes first."""

    def __iter__(self) -> Iterator[_Login]:
        yield from self.logins
        for part in self.parts.values():
            yield from part


class Logins:
    """Wrong passwords cost a part of their networks' budgets, right ones cost nothing.

    Whether a password is right is known only after its check. So a check begins only if the budgets would
    allow that it and all that are under way from its networks are wrong: a flood gets no further than that.
    The others wait until a check ends. Its end admits the next ones, or refuses all that wait if a budget is
    spent.

    Free checks go to networks in turn, so each network waits as long as it would if all had one login. When
    too many wait, the last one in the longest line is refused: logins of other networks cannot be kept out.
    """

    def __init__(
        self,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._patience_s = patience_s
        self._queue = _Line()
        self._under_way = 0
        self._under_way_of: Counter[str] = Counter()
        self._spent: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """For each network what it has spent, and when that was true. The one seen longest ago is first."""

    @property
    def waiting(self) -> int:
        return self._queue.waiting

    @asynccontextmanager
    async def turn(self, networks: Networks) -> AsyncIterator[Turn]:
        """Wait for a turn. Raises ``Forbidden`` with ``registry.too-many-logins`` instead of waiting long."""
        await self._begin(networks)
        turn = Turn()
        try:
            yield turn
        finally:
            self._end(networks, turn.good)

    async def _begin(self, networks: Networks) -> None:
        for network, budget in self._budgets(networks):
            refusal = self._refusal(network, budget)
            if refusal is not None:
                raise refusal
        login = _Login(networks, asyncio.get_running_loop().create_future())
        self._line_up(login)
        self._admit()
        if self.waiting > self._limits.logins_waiting:
            self._refuse(self._last_of_longest(networks), too_many_logins(_BUSY_S))
        try:
            async with asyncio.timeout(self._patience_s):
                await login.place
        except BaseException as error:
            if not login.place.done() or login.place.cancelled():
                self._remove(login)
            elif login.place.exception() is None:
                # Its check was about to begin.
                self._end(networks, True)
            if isinstance(error, TimeoutError):
                raise too_many_logins(_BUSY_S) from None
            raise

    def _end(self, networks: Networks, good: bool) -> None:
        self._under_way -= 1
        for network, budget in self._budgets(networks):
            self._under_way_of[network] -= 1
            if not self._under_way_of[network]:
                del self._under_way_of[network]
            if not good:
                self._note(network, self._spent_by(network, budget) + 1)
        self._refuse_spent(networks)
        self._admit()

    def _admit(self) -> None:
        """Begin checks as long as there are free ones and logins that may be checked."""
        while self._under_way < _AT_ONCE:
            login = self._take_next(self._queue)
            if login is None:
                return
            if login.place.done():
                # It gives up, and does not know yet that it is out of the line.
                continue
            self._under_way += 1
            self._under_way_of.update(login.networks)
            login.place.set_result(None)

    def _take_next(self, line: _Line) -> _Login | None:
        """The next whose check may begin, out of its line."""
        if line.logins:
            line.waiting -= 1
            return line.logins.popleft()
        for network, part in line.parts.items():
            spent = self._spent_by(network, part.budget)
            if spent + self._under_way_of[network] + 1 > part.budget:
                continue
            found = self._take_next(part)
            if found is None:
                continue
            line.waiting -= 1
            line.parts.move_to_end(network)
            if not part.waiting:
                del line.parts[network]
            return found
        return None

    def _line_up(self, login: _Login) -> None:
        line = self._queue
        line.waiting += 1
        for network, budget in self._budgets(login.networks):
            line = line.parts.setdefault(network, _Line(budget))
            line.waiting += 1
        line.logins.append(login)

    def _lines(self, networks: Networks) -> list[_Line]:
        """The lines where logins from there wait, from the whole queue on, as far as there are any."""
        found = [self._queue]
        for network in networks:
            part = found[-1].parts.get(network)
            if part is None:
                break
            found.append(part)
        return found

    def _remove(self, login: _Login) -> None:
        lines = self._lines(login.networks)
        if login not in lines[-1].logins:
            return
        lines[-1].logins.remove(login)
        for line in lines:
            line.waiting -= 1
        for line, network in zip(lines, login.networks, strict=False):
            if not line.parts[network].waiting:
                del line.parts[network]
                return

    def _refuse(self, login: _Login, refusal: Forbidden) -> None:
        self._remove(login)
        if not login.place.done():
            login.place.set_exception(refusal)

    def _refuse_spent(self, networks: Networks) -> None:
        for network, line in zip(networks, self._lines(networks)[1:], strict=False):
            for login in list(line):
                refusal = self._refusal(network, line.budget)
                if refusal is None:
                    break
                self._refuse(login, refusal)

    def _last_of_longest(self, newest: Networks) -> _Login:
        """Of lines of one length, that of the newest login: it does not drive out one that came before.

        Of the others, that whose turn comes last.
        """
        line = self._queue
        while line.parts:
            parts = [(part.waiting, name in newest, part) for name, part in reversed(line.parts.items())]
            *_, line = max(parts, key=lambda each: each[:2])
        return line.logins[-1]

    def _budgets(self, networks: Networks) -> Iterator[tuple[str, int]]:
        for network in networks[:-1]:
            yield network, self._limits.logins_site
        yield networks[-1], self._limits.logins

    def _refusal(self, network: str, budget: int) -> Forbidden | None:
        """If its budget is spent."""
        spent = self._spent_by(network, budget)
        if spent + 1 <= budget:
            return None
        return too_many_wrong_passwords((spent + 1 - budget) * _PERIOD_S / budget)

    def _spent_by(self, network: str, budget: int) -> float:
        spent, then = self._spent.get(network, (0.0, 0.0))
        return max(0.0, spent - (self._clock() - then) * budget / _PERIOD_S)

    def _note(self, network: str, spent: float) -> None:
        self._spent[network] = (spent, self._clock())
        self._spent.move_to_end(network)
        if len(self._spent) > _MOST_NETWORKS:
            self._spent.popitem(last=False)


def origin_of(scope: Scope) -> Networks:
    """Whose budgets a request takes from."""
    return networks_of(scope["client"][0]) if scope.get("client") else ("",)
