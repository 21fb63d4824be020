"""Logins: a budget of wrong passwords per address, and no queue for generated keys.

Passwords are checked by a function that waits until the test lets it go on, so nothing depends on time.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.waiting import until
from tests.registry.guarding import bearer, new_key, new_user

from dragoman.core.errors import ConfigurationError, Forbidden
from dragoman.registry import connect
from dragoman.registry import keys as secrets
from dragoman.registry.access import Principal
from dragoman.registry.http import authenticate
from dragoman.registry.http.addresses import networks_of
from dragoman.registry.http.logins import Logins, Networks, origin_of
from dragoman.registry.http.server import Server, ServerOptions
from dragoman.registry.limits import Limits
from dragoman.registry.model import Key

BUDGET = Limits().logins
WAITING = 50
AT_ONCE = 2
PATIENCE_S = 60.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Stretching:
    """Stands in for scrypt: counts its calls, and can make them wait."""

    def __init__(self) -> None:
        self.calls = 0
        self.go_on = threading.Event()
        self.go_on.set()
        self.begun = threading.Event()

    def __call__(self, password: str, salt: bytes) -> bytes:
        self.calls += 1
        self.begun.set()
        assert self.go_on.wait(PATIENCE_S)
        return password.encode() + salt


@pytest.fixture(autouse=True)
def standing_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No budget comes back while a test runs, however long that takes."""
    monkeypatch.setattr(authenticate, "Logins", partial(Logins, clock=Clock(), patience_s=PATIENCE_S))


@pytest.fixture
def stretching(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stretching]:
    made = Stretching()
    monkeypatch.setattr(secrets, "_scrypt", made)
    yield made
    made.go_on.set()


def login(server: Server, user: str, password: str) -> httpx.Response:
    return httpx.get(f"{server.url}/subjects", auth=(user, password), timeout=PATIENCE_S)


def test_generated_keys_do_not_queue_behind_passwords(guarded: Server, stretching: Stretching) -> None:
    key = new_key(guarded.service, "read")
    stretching.go_on.clear()
    with ThreadPoolExecutor(BUDGET) as threads:
        wrong = [threads.submit(login, guarded, f"nobody{i}", "x") for i in range(BUDGET)]
        assert stretching.begun.wait(PATIENCE_S)
        # Every check of a password now waits, and these are answered all the same.
        assert login(guarded, key.id, key.secret).status_code == 200
        assert httpx.get(f"{guarded.url}/contracts", headers=bearer(key.token)).status_code == 200
        assert login(guarded, key.id, "wrong").status_code == 401
        assert login(guarded, "dk_unknown", "wrong").status_code == 401
        assert not any(each.done() for each in wrong)
        stretching.go_on.set()
        assert {each.result(PATIENCE_S).status_code for each in wrong} == {401}


def test_wrong_keys_are_never_stretched(guarded: Server, stretching: Stretching) -> None:
    key = new_key(guarded.service, "read")
    for id in (key.id, "dk_unknown", "dk_"):
        assert login(guarded, id, "wrong").status_code == 401
    assert stretching.calls == 0


def test_many_wrong_passwords_at_once_get_no_further_than_the_budget(
    stretching: Stretching,
) -> None:
    """As many as the budget allows are checked, as many as may wait are refused when it is spent."""
    limits = Limits(logins_waiting=WAITING)
    options = ServerOptions(store="sqlite://:memory:", port=0, credentials=True, limits=limits)
    stretching.go_on.clear()
    with Server(options) as guarded, ThreadPoolExecutor(100) as threads:
        tried = [threads.submit(login, guarded, f"nobody{i}", "x") for i in range(100)]
        refused = [_result_while_stretching(tried, stretching) for _ in range(100 - AT_ONCE - WAITING)]
        stretching.go_on.set()
        answers = [each.result(PATIENCE_S) for each in tried]
        refused += [each for each in answers if each.status_code != 401]
        assert len(refused) == 100 - BUDGET
        for answer in refused:
            assert (answer.status_code, answer.json()["error_code"]) == (429, 42901)
            assert int(answer.headers["retry-after"]) >= 1
    assert stretching.calls == BUDGET


def test_right_passwords_of_many_users_at_once_are_never_refused(
    guarded: Server, stretching: Stretching
) -> None:
    """They share an address, and nothing is known of them yet, as when the server has just started."""
    for number in range(BUDGET * 2):
        new_user(guarded.service, f"user{number}", "correct horse", "read")
    stretching.go_on.clear()
    with ThreadPoolExecutor(BUDGET * 2 + 1) as threads:
        asked = [
            threads.submit(login, guarded, f"user{i}", "correct horse" if i else "x")
            for i in range(BUDGET * 2)
        ]
        assert stretching.begun.wait(PATIENCE_S)
        stretching.go_on.set()
        answers = [each.result(PATIENCE_S).status_code for each in asked]
    assert answers == [401] + [200] * (BUDGET * 2 - 1)


def _result_while_stretching(tried: list[Future[httpx.Response]], stretching: Stretching) -> httpx.Response:
    """The next that is answered while no password is checked to its end."""
    done, _ = wait(tried, PATIENCE_S, FIRST_COMPLETED)
    assert done
    first = done.pop()
    tried.remove(first)
    assert not stretching.go_on.is_set()
    return first.result()


def test_a_user_who_is_named_like_a_key_has_a_password_too(guarded: Server, stretching: Stretching) -> None:
    new_user(guarded.service, "dk_ada", "correct horse", "read")
    before = stretching.calls
    assert login(guarded, "dk_ada", "correct horse").status_code == 200
    wrong = [login(guarded, "dk_ada", f"wrong{i}").status_code for i in range(BUDGET + 1)]
    assert wrong == [401] * BUDGET + [429]
    assert stretching.calls == before + 1 + BUDGET


def test_a_right_password_costs_nothing(guarded: Server, stretching: Stretching) -> None:
    for number in range(BUDGET + 5):
        new_user(guarded.service, f"user{number}", "correct horse", "read")
    before = stretching.calls
    for number in range(BUDGET + 5):
        assert login(guarded, f"user{number}", "correct horse").status_code == 200
    assert stretching.calls == before + BUDGET + 5


def test_who_is_known_is_served_when_the_budget_is_spent(guarded: Server, stretching: Stretching) -> None:
    new_user(guarded.service, "ada", "correct horse", "read")
    assert login(guarded, "ada", "correct horse").status_code == 200
    statuses = [login(guarded, "ada", f"wrong{i}").status_code for i in range(BUDGET + 1)]
    assert statuses == [401] * BUDGET + [429]
    assert login(guarded, "ada", "correct horse").status_code == 200


def test_one_credential_that_many_send_at_once_is_checked_once(
    guarded: Server, stretching: Stretching
) -> None:
    new_user(guarded.service, "ada", "correct horse", "read")
    before = stretching.calls
    stretching.begun.clear()
    stretching.go_on.clear()
    with ThreadPoolExecutor(BUDGET * 2) as threads:
        asked = [threads.submit(login, guarded, "ada", "correct horse") for _ in range(BUDGET * 2)]
        assert stretching.begun.wait(PATIENCE_S)
        stretching.go_on.set()
        assert {each.result(PATIENCE_S).status_code for each in asked} == {200}
    assert stretching.calls == before + 1


class Held:
    """Checks of one user's password end when the test says so. The store was asked before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, user: str) -> None:
        self.begun: queue.Queue[None] = queue.Queue()
        self.go_on = threading.Event()

        def held(id: str, key: Key | None, secret: str) -> Principal | None:
            found = secrets.recognise(id, key, secret)
            if id == user:
                self.begun.put(None)
                assert self.go_on.wait(PATIENCE_S)
            return found

        monkeypatch.setattr(authenticate, "recognise", held)


@pytest.mark.parametrize("kind", ["password", "user like a key"])
def test_a_login_that_is_under_way_ends_with_the_key_that_is_revoked(
    guarded: Server, stretching: Stretching, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = {"password": "eve", "user like a key": "dk_eve"}[kind]
    new_user(guarded.service, user, "correct horse", "read")
    new_user(guarded.service, "ada", "correct horse", "read")
    admin = bearer(new_key(guarded.service, "admin").token)
    held = Held(monkeypatch, user)
    with ThreadPoolExecutor(2) as threads:
        before = threads.submit(login, guarded, user, "correct horse")
        held.begun.get(timeout=PATIENCE_S)
        revoked = httpx.delete(f"{guarded.url}/keys/{user}", headers=admin, timeout=PATIENCE_S)
        assert revoked.status_code == 200
        # This one may join the check that was begun before, whose result does not count.
        after = threads.submit(login, guarded, user, "correct horse")
        held.go_on.set()
        assert [each.result(PATIENCE_S).status_code for each in (before, after)] == [401, 401]
    assert login(guarded, user, "correct horse").status_code == 401
    assert login(guarded, "ada", "correct horse").status_code == 200


def test_the_client_says_that_it_logged_in_too_often(stretching: Stretching) -> None:
    options = ServerOptions(store="sqlite://:memory:", port=0, credentials=True, limits=Limits(logins=1))

    async def ask(server: Server, password: str) -> str:
        registry = connect(server.url, username="ada", password=password)
        try:
            with pytest.raises(Forbidden) as refused:
                await registry.contracts()
            return refused.value.code
        finally:
            await registry.close()

    with Server(options) as server:
        assert asyncio.run(ask(server, "wrong")) == "registry.unauthenticated"
        assert asyncio.run(ask(server, "wrong too")) == "registry.too-many-logins"


def logins_of(
    budget: int,
    waiting: int = 50,
    clock: Clock | None = None,
    patience_s: float = PATIENCE_S,
    site: int = 100,
) -> Logins:
    limits = Limits(logins=budget, logins_site=site, logins_waiting=waiting)
    return Logins(limits, clock or Clock(), patience_s)


async def attempt(logins: Logins, address: str, good: bool = False) -> int:
    """0 for a turn, else the seconds to wait."""
    try:
        async with logins.turn(networks_of(address)) as turn:
            turn.good = good
    except Forbidden as error:
        assert error.code == "registry.too-many-logins"
        return int(str(error.where["retry_after_s"]))
    return 0


async def test_the_budget_comes_back_as_time_passes() -> None:
    clock = Clock()
    logins = logins_of(10, clock=clock)
    assert [await attempt(logins, "a") for _ in range(12)] == [0] * 10 + [6, 6]
    assert await attempt(logins, "b") == 0
    clock.now += 5.9
    assert await attempt(logins, "a") == 1
    clock.now += 0.2
    assert [await attempt(logins, "a") for _ in range(2)] == [0, 6]
    clock.now += 3600
    assert [await attempt(logins, "a") for _ in range(11)] == [0] * 10 + [6]


async def test_a_site_has_a_budget_of_its_own() -> None:
    """With IPv6, whoever has one network of 64 bits often has 65,536 of them."""
    clock = Clock()
    logins = logins_of(2, clock=clock, site=5)
    assert [await attempt(logins, f"2001:db8:0:{n}::1") for n in range(7)] == [0] * 5 + [12, 12]
    assert [await attempt(logins, "2001:db8:1::1") for _ in range(3)] == [0, 0, 30]
    assert await attempt(logins, "192.0.2.1") == 0
    clock.now += 12.1
    assert [await attempt(logins, f"2001:db8:0:{n}::1") for n in range(7, 9)] == [0, 12]


async def test_a_turn_that_was_good_is_given_back() -> None:
    logins = logins_of(2)
    assert [await attempt(logins, "a", good=True) for _ in range(10)] == [0] * 10
    assert [await attempt(logins, "a") for _ in range(3)] == [0, 0, 30]


class Checks:
    """Checks of passwords that end one by one, when the test says so."""

    def __init__(self, logins: Logins) -> None:
        self.logins = logins
        self.begun: list[str] = []
        """The addresses, in the order of their checks."""
        self._ends: asyncio.Queue[None] = asyncio.Queue()

    def login(self, address: str, good: bool = False) -> asyncio.Task[bool]:
        """Whether it had a turn."""
        return asyncio.create_task(self._login(address, good))

    async def _login(self, address: str, good: bool) -> bool:
        try:
            async with self.logins.turn(networks_of(address)) as turn:
                self.begun.append(address)
                await self._ends.get()
                turn.good = good
        except Forbidden as refused:
            assert refused.code == "registry.too-many-logins"
            return False
        return True

    def end(self, count: int = 1) -> None:
        for _ in range(count):
            self._ends.put_nowait(None)


FLOODS = {
    "one address": ["192.0.2.1"],
    "one network": ["2001:db8::1"],
    "networks of a site": [f"2001:db8:0:{n}::1" for n in range(20)],
    "three networks": ["2001:db8::1", "2001:db8:1::1", "2001:db8:2::1"],
    "twenty addresses": [f"192.0.2.{n}" for n in range(20)],
}


@pytest.mark.parametrize("waiting", [20, 50])
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_a_flood_of_wrong_logins_keeps_no_other_network_out(flood: list[str], waiting: int) -> None:
    """A right login waits for one turn of each network that came before, and for the checks under way."""
    checks = Checks(logins_of(100, waiting, site=1000))
    wrong = [checks.login(flood[n % len(flood)]) for n in range(waiting * 3)]
    await until(lambda: checks.logins.waiting == waiting and len(checks.begun) == AT_ONCE)
    if len(flood) < waiting:
        right = checks.login("198.51.100.1", good=True)
        await until(lambda: "198.51.100.1" in checks.begun or checks.logins.waiting == waiting)
        lines = len({networks_of(address)[0] for address in flood})
        for ended in range(AT_ONCE + lines + 1):
            assert not right.done()
            if "198.51.100.1" in checks.begun:
                break
            checks.end()
            await until(lambda ended=ended: len(checks.begun) == AT_ONCE + ended + 1)  # type: ignore[misc]
        assert "198.51.100.1" in checks.begun
        checks.end(1000)
        assert await right
    checks.end(1000)
    await asyncio.gather(*wrong)
    assert checks.logins.waiting == 0


async def test_networks_take_turns_and_so_do_those_of_one_site() -> None:
    checks = Checks(logins_of(100))
    addresses = ["192.0.2.1"] * 4 + ["2001:db8:0:1::1"] * 3 + ["2001:db8:0:2::1"] * 2 + ["192.0.2.2"]
    tasks = [checks.login(address) for address in addresses]
    await until(lambda: checks.logins.waiting == len(addresses) - AT_ONCE)
    for ended in range(len(addresses) - AT_ONCE):
        checks.end()
        await until(lambda ended=ended: len(checks.begun) == AT_ONCE + ended + 1)  # type: ignore[misc]
    checks.end(AT_ONCE)
    assert await asyncio.gather(*tasks) == [True] * len(addresses)
    assert checks.begun == [
        "192.0.2.1",
        "192.0.2.1",
        "192.0.2.1",
        "2001:db8:0:1::1",
        "192.0.2.2",
        "192.0.2.1",
        "2001:db8:0:2::1",
        "2001:db8:0:1::1",
        "2001:db8:0:2::1",
        "2001:db8:0:1::1",
    ]


async def test_the_longest_line_gives_way_and_lines_of_one_login_do_not() -> None:
    checks = Checks(logins_of(100, 4))
    busy = [checks.login("192.0.2.1") for _ in range(AT_ONCE)]
    await until(lambda: len(checks.begun) == AT_ONCE)
    # Two lines of one site are one long line.
    first, second, third, fourth = (
        checks.login(address) for address in ["2001:db8::1", "2001:db8:0:1::1", "2001:db8::1", "192.0.2.2"]
    )
    await until(lambda: checks.logins.waiting == 4)
    fifth = checks.login("192.0.2.3")
    assert not await third
    sixth = checks.login("192.0.2.4")
    assert not await second
    assert not await checks.login("192.0.2.5"), "All have one login now, and the newest has waited least."
    assert not await checks.login("2001:db8:0:9::1"), "Its own line would be the longest."
    checks.end(20)
    assert await asyncio.gather(*busy, first, fourth, fifth, sixth) == [True] * 6


async def test_one_that_gives_up_leaves_its_place_to_another() -> None:
    checks = Checks(logins_of(5, 1))
    tasks = [checks.login(f"10.0.0.{i}") for i in range(3)]
    await until(lambda: checks.logins.waiting == 1)
    assert not await checks.login("10.0.1.1")
    tasks[-1].cancel()
    await asyncio.gather(tasks[-1], return_exceptions=True)
    last = checks.login("10.0.1.2")
    await until(lambda: checks.logins.waiting == 1)
    checks.end(3)
    assert await asyncio.gather(*tasks[:-1], last) == [True] * 3


async def stretch(
    logins: Logins, networks: Networks, go_on: asyncio.Event, good: bool, begun: list[int], number: int = 0
) -> bool:
    """Whether it had a turn."""
    try:
        async with logins.turn(networks) as turn:
            begun.append(number)
            await go_on.wait()
            turn.good = good
    except Forbidden:
        return False
    return True


@given(
    budget=st.integers(1, 6),
    site=st.integers(1, 8),
    goods=st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()), max_size=30),
)
def test_whatever_comes_at_once_only_the_budget_is_ever_wrong(
    budget: int, site: int, goods: list[tuple[str, bool, bool]]
) -> None:
    """Good ones, wrong ones and those that give up, from an address and two networks of a site."""
    networks = {"a": ("a",), "b": ("site", "b"), "c": ("site", "c")}

    async def run() -> None:
        logins, go_on, begun = logins_of(budget, 100, site=site), asyncio.Event(), list[int]()
        tasks = [
            asyncio.create_task(stretch(logins, networks[address], go_on, good, begun, number))
            for number, (address, good, _) in enumerate(goods)
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        leaving = {index for index, (_, _, gives_up) in enumerate(goods) if gives_up and index not in begun}
        for index in leaving:
            tasks[index].cancel()
        go_on.set()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        for members, most in (("a", budget), ("b", budget), ("c", budget), ("bc", site)):
            stayed = [
                (good, had)
                for index, ((of, good, _), had) in enumerate(zip(goods, done, strict=True))
                if of in members and index not in leaving
            ]
            wrong = [had for good, had in stayed if not good]
            assert wrong.count(True) <= most
            if members == "a":
                assert wrong.count(True) == min(most, len(wrong))
                if len(wrong) < most:
                    assert all(had for _, had in stayed), "nobody is refused before the budget is spent"
        assert (logins.waiting, logins._under_way, +logins._under_way_of) == (0, 0, {})
        assert not logins._queue.parts

    asyncio.run(run())


async def test_a_login_waits_for_a_limited_time_and_its_place_goes_to_others() -> None:
    logins, go_on, begun = logins_of(1, patience_s=0.01), asyncio.Event(), list[int]()
    first = asyncio.create_task(stretch(logins, "a", go_on, True, begun))
    await until(lambda: begun == [0])
    assert await attempt(logins, "a") == 1
    go_on.set()
    assert await first
    assert logins.waiting == 0
    assert (await attempt(logins, "a"), logins.waiting) == (0, 0)


async def test_one_address_cannot_fill_the_line_of_others() -> None:
    logins, go_on, begun = logins_of(1, 3), asyncio.Event(), list[int]()
    flood = [asyncio.create_task(stretch(logins, "a", go_on, False, begun)) for _ in range(4)]
    await until(lambda: logins.waiting == 3)
    assert await attempt(logins, "a") == 1
    assert await attempt(logins, "b") == 0
    go_on.set()
    assert await asyncio.gather(*flood) == [True, False, False, False]


async def test_the_memory_of_networks_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.registry.http.logins._MOST_NETWORKS", 3)
    logins = logins_of(1)
    for address in "abcd":
        assert await attempt(logins, address) == 0
    assert len(logins._spent) == 3
    assert await attempt(logins, "d") > 0


@pytest.mark.parametrize("limits", [{"logins": 0}, {"logins_site": -1}, {"logins_waiting": -1}, {"body": 0}])
def test_limits_with_which_nothing_would_work_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Limits(**limits)
    assert next(iter(limits)) in str(refused.value)


async def test_without_a_queue_only_what_can_be_checked_at_once_is_checked() -> None:
    checks = Checks(logins_of(5, 0))
    busy = [checks.login("a") for _ in range(AT_ONCE)]
    await until(lambda: len(checks.begun) == AT_ONCE)
    assert not await checks.login("b")
    checks.end(2)
    assert await asyncio.gather(*busy) == [True] * 2


@pytest.mark.parametrize(
    ("client", "networks"),
    [
        (("192.0.2.7", 5), ("192.0.2.7",)),
        (("2001:db8:1:2:3:4:5:6", 5), ("2001:db8:1::/48", "2001:db8:1:2::/64")),
        (("2001:db8:1:2:ffff::", 5), ("2001:db8:1::/48", "2001:db8:1:2::/64")),
        (("::ffff:192.0.2.7", 5), ("192.0.2.7",)),
        (("fe80::1%eth0", 5), ("fe80::/48", "fe80::/64")),
        (("somewhere", 0), ("somewhere",)),
        (None, ("",)),
    ],
)
def test_a_login_comes_from_what_a_site_and_what_a_customer_has(
    client: tuple[str, int] | None, networks: Networks
) -> None:
    assert origin_of({"client": client}) == networks
