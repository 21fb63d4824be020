"""Sagas: all done or all undone, whatever the participants answer, and nothing between after the pivot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Client, EndpointOptions, RetryOptions, endpoint, record
from dragoman.adapters.memory import MemoryBroker
from dragoman.adapters.sqlite import SqliteDatabase
from dragoman.cli import main
from dragoman.client.saga import Saga, Step, orchestrate, state
from dragoman.client.saga.ledger import Ledger
from dragoman.client.saga.state import ENDED, Progress, State
from dragoman.client.saga.transitions import Verdict, after
from dragoman.core.database import Database, Transaction
from dragoman.core.errors import ClientError, ConfigurationError, Conflict, NotFound
from dragoman.core.loading import DATABASES, load, scheme_of
from dragoman.core.registry import Registry
from tests.client.waiting import until

ONCE = EndpointOptions(retry=RetryOptions(attempts=1))
QUICK = RetryOptions(attempts=3, delay=0.0, jitter=0.0)


@record
class Trip:
    traveller: str
    flight: str = ""


@record
class Booking:
    what: str
    traveller: str
    cancelled: bool = False


@record
class Booked:
    reference: str


@record
class Refused(Exception):
    reason: str


def book(what: str) -> Callable[[Trip], Booking]:
    def make(trip: Trip) -> Booking:
        return Booking(what, trip.traveller)

    return make


def cancel(what: str) -> Callable[[Trip], Booking]:
    def make(trip: Trip) -> Booking:
        return Booking(what, trip.traveller, cancelled=True)

    return make


def with_flight(trip: Trip, reply: dict[str, Any]) -> Trip:
    return Trip(trip.traveller, reply["reference"])


def trip(timeout: float = 3600.0, retry: RetryOptions = QUICK) -> Saga[Trip]:
    def step(name: str, **more: Any) -> Step[Trip]:
        return Step(name, f"{name}.commands", book(name), timeout=timeout, retry=retry, **more)

    return Saga(
        "trip",
        Trip,
        (
            step("flight", compensation=cancel("flight"), take=with_flight),
            step("hotel", compensation=cancel("hotel")),
            step("payment", pivot=True),
            step("ticket"),
        ),
    )


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = SqliteDatabase(f"sqlite://{tmp_path / 'app.db'}")
    with database.transaction() as tx:
        tx.execute("CREATE TABLE bookings (what TEXT, traveller TEXT)")
    yield database
    database.close()


class Participants:
    """One for each step. ``refusing`` ones say no so many times."""

    def __init__(self, **refusing: int) -> None:
        self.refusing = refusing
        self.calls: list[str] = []

    def endpoints(self) -> list[object]:
        return [self._endpoint(name) for name in ("flight", "hotel", "payment", "ticket")]

    def _endpoint(self, name: str) -> object:
        @endpoint(f"{name}.commands", group=name, raises=[Refused], options=ONCE)
        def handle(command: Booking, tx: Transaction) -> Booked:
            verb = "Cancel" if command.cancelled else "Book"
            self.calls.append(f"{verb} {name}")
            if verb == "Book" and self.refusing.get(name, 0):
                self.refusing[name] -= 1
                raise Refused("There is none left.")
            row = (name, command.traveller)
            if verb == "Book":
                tx.execute("INSERT INTO bookings VALUES (?, ?)", row)
            else:
                tx.execute("DELETE FROM bookings WHERE what = ? AND traveller = ?", row)
            return Booked(f"{name}-1")

        return handle


def bookings(database: Database) -> list[str]:
    with database.transaction(write=False) as tx:
        return [str(row[0]) for row in tx.execute("SELECT what FROM bookings ORDER BY what")]


def told(database: Database, id: str) -> list[str]:
    with database.transaction(write=False) as tx:
        return [str(event) for _, event in state.events(tx, id)]


async def test_a_saga_whose_steps_all_succeed_is_completed(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    saga, people = orchestrate(trip()), Participants()
    async with Client(memory, registry, [saga, *people.endpoints()], database=database):
        id = await saga.start(Trip("Ada"))
        found = await saga.ended(id)
    assert found.state is State.COMPLETED
    assert found.shown()["data"] == {"traveller": "Ada", "flight": "flight-1"}
    assert bookings(database) == ["flight", "hotel", "payment", "ticket"]
    assert told(database, id) == [
        "started",
        "do flight: done",
        "do hotel: done",
        "do payment: done",
        "do ticket: done",
        "completed",
    ]


async def test_a_refusal_before_the_pivot_undoes_what_was_done(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    saga, people = orchestrate(trip()), Participants(payment=1)
    async with Client(memory, registry, [saga, *people.endpoints()], database=database):
        found = await saga.ended(await saga.start(Trip("Ada")))
    assert found.state is State.REJECTED
    assert found.problem == "Refused"
    assert bookings(database) == []
    assert people.calls == ["Book flight", "Book hotel", "Book payment", "Cancel hotel", "Cancel flight"]


async def test_a_step_behind_the_pivot_is_repeated_until_it_succeeds(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    saga, people = orchestrate(trip()), Participants(ticket=2)
    async with Client(memory, registry, [saga, *people.endpoints()], database=database), saga.watch():
        found = await saga.ended(await saga.start(Trip("Ada")))
    assert found.state is State.COMPLETED
    assert bookings(database) == ["flight", "hotel", "payment", "ticket"]


async def test_a_step_that_never_succeeds_waits_for_a_person_who_may_try_it_again(
    memory: MemoryBroker, registry: Registry, database: SqliteDatabase
) -> None:
    saga, people = orchestrate(trip()), Participants(ticket=QUICK.attempts)
    async with Client(memory, registry, [saga, *people.endpoints()], database=database), saga.watch():
        id = await saga.start(Trip("Ada"))
        await until(lambda: _stuck(database, id))
        assert bookings(database) == ["flight", "hotel", "payment"], "what is paid is not undone"
        url = ["--database", f"sqlite://{database.path}", "--json"]
        [listed] = await said("saga", "list", "--state", "stuck", *url)
        assert (listed["id"], listed["saga"], listed["state"], listed["step"]) == (id, "trip", "stuck", 3)
        shown = await said("saga", "show", id, *url)
        assert shown["data"] == {"traveller": "Ada", "flight": "flight-1"}
        assert "stuck: Refused" in [each["event"] for each in shown["events"]]
        await said("saga", "retry", id, *url)
        assert (await saga.ended(id)).state is State.COMPLETED
        with pytest.raises(Conflict, match="not stuck"):
            Ledger(database).retry(id)


async def said(*arguments: str) -> Any:
    """What a command prints."""
    from typer.testing import CliRunner

    from dragoman.cli import application

    result = await asyncio.to_thread(CliRunner().invoke, application([*arguments]), arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def _stuck(database: Database, id: str) -> bool:
    with database.transaction(write=False) as tx:
        found = state.find(tx, id)
    return found is not None and found.stuck


async def test_a_command_that_nobody_answers_is_sent_again_and_has_its_effect_once(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    """The participants come late: by then several commands wait for them."""
    saga, people = (
        orchestrate(trip(timeout=0.01, retry=RetryOptions(attempts=1000, delay=0.0))),
        Participants(),
    )
    async with Client(memory, registry, [saga], database=database), saga.watch():
        id = await saga.start(Trip("Ada"))
        await until(lambda: told(database, id).count("do flight: no answer") >= 2)
        async with Client(memory, registry, people.endpoints(), database=database):
            assert (await saga.ended(id)).state is State.COMPLETED
    assert people.calls.count("Book flight") == 1
    assert bookings(database) == ["flight", "hotel", "payment", "ticket"]


async def test_a_step_that_stays_silent_is_undone_with_the_others(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    flight, hotel, *others = trip().steps
    silent = Saga("trip", Trip, (flight, replace(hotel, timeout=0.01), *others))
    saga, people = orchestrate(silent), Participants()
    answering = [each for each in people.endpoints() if "hotel" not in each.__dragoman_endpoint__.channel]  # type: ignore[attr-defined]
    async with Client(memory, registry, [saga, *answering], database=database), saga.watch():
        id = await saga.start(Trip("Ada"))
        await until(lambda: "undo hotel: no answer" in told(database, id))
        with database.transaction(write=False) as tx:
            found = state.find(tx, id)
        assert found is not None
        assert found.state is State.COMPENSATING


async def test_a_saga_goes_on_where_its_orchestrator_has_stopped(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    people = Participants()
    first = orchestrate(trip())
    async with Client(memory, registry, [first], database=database):
        id = await first.start(Trip("Ada"))
    async with Client(memory, registry, people.endpoints(), database=database) as client:
        await until(lambda: client.metrics.of("flight.commands").handled)
    second = orchestrate(trip())
    async with Client(memory, registry, [second, *people.endpoints()], database=database):
        assert (await second.ended(id)).state is State.COMPLETED
    assert bookings(database) == ["flight", "hotel", "payment", "ticket"]


async def test_a_saga_of_a_known_id_is_not_begun_again(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    saga, people = orchestrate(trip()), Participants()
    async with Client(memory, registry, [saga, *people.endpoints()], database=database):
        for _ in range(3):
            await saga.start(Trip("Ada"), id="trips/2026/1")
        await saga.ended("trips/2026/1")
        with pytest.raises(ConfigurationError, match="cannot have 151 characters"):
            await saga.start(Trip("Ada"), id="x" * 151)
        with pytest.raises(NotFound, match="no saga 'trip-2'"):
            await saga.progress("trip-2")
    assert people.calls.count("Book flight") == 1


async def test_a_saga_that_another_process_begins_at_the_same_moment_is_begun_once(
    memory: MemoryBroker, registry: Registry, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    saga = orchestrate(trip())
    async with Client(memory, registry, [saga], database=database):
        await saga.start(Trip("Ada"), id="trip-1")
        monkeypatch.setattr(state, "find", lambda tx, id: None)
        assert await saga.start(Trip("Ada"), id="trip-1") == "trip-1"
    assert told(database, "trip-1") == ["started"]


@pytest.mark.parametrize(
    "url", ["sqlite://mistyped.db", "sqlite://no/such/folder/app.db", "sqlite://:memory:"]
)
def test_a_database_that_is_not_there_is_not_made_by_looking_for_sagas(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["saga", "list", "--database", url])
    assert ended.value.code == 2
    assert "There is no database" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (Step("a", "a", book("a")), Step("a", "a", book("a"))),
        (Step("a/b", "a", book("a")),),
        (Step("a", "a", book("a"), pivot=True), Step("b", "b", book("b"), pivot=True)),
        (Step("a", "a", book("a"), pivot=True, compensation=cancel("a")),),
        (Step("a", "a", lambda trip: trip),),
        (Step("a", "a", book("a")), Step("b", "b", book("b"), pivot=True)),
        (Step("a", "a", book("a"), compensation=cancel("a")), Step("b", "b", book("b"))),
        Step("a", "a", book("a"), pivot=True),
        ("flight", "hotel"),
    ],
)
def test_a_saga_that_makes_no_sense_is_refused(steps: Any) -> None:
    with pytest.raises(ConfigurationError):
        Saga("trip", Trip, steps)


def test_a_step_that_leaves_no_trace_needs_no_compensation() -> None:
    looking = Step("a", "a", book("a"), leaves_no_trace=True)
    assert Saga("trip", Trip, (looking, Step("b", "b", book("b"), pivot=True))).steps[0] is looking


async def test_a_saga_without_a_running_client_says_so() -> None:
    saga = orchestrate(trip())
    with pytest.raises(ClientError, match="has no client"):
        await saga.start(Trip("Ada"))
    with pytest.raises(ClientError, match="has no client"):
        async with saga.watch():
            pass


def unfinished(id: str, step: int, due: float | None) -> Progress:
    data = json.dumps({"traveller": "Ada", "flight": ""})
    return Progress(id, "trip", State.RUNNING, step, 0, 0, False, due, data, None, 1.0, 1.0, 0)


async def test_a_saga_whose_step_is_gone_waits_for_a_person_and_holds_up_no_other(
    memory: MemoryBroker, registry: Registry, database: Database
) -> None:
    """As after a restart with another definition."""
    saga, people = orchestrate(trip()), Participants()
    async with Client(memory, registry, [saga, *people.endpoints()], database=database):
        with database.transaction() as tx:
            state.insert(tx, unfinished("old", step=9, due=1.0))
            state.insert(tx, unfinished("new", step=0, due=2.0))
        async with saga.watch():
            assert (await saga.ended("new")).state is State.COMPLETED
    found, events = Ledger(database).show("old")
    assert found.stuck
    assert events[-1].event == "stuck: IndexError while its command was made"


def test_sagas_of_one_state_are_found_behind_any_number_of_others(database: Database) -> None:
    ledger = Ledger(database)
    with database.transaction() as tx:
        state.insert(tx, unfinished("stuck", step=1, due=None))
        for number in range(5):
            state.insert(tx, replace(unfinished(f"run-{number}", step=1, due=9.0), created=2.0))
        state.insert(tx, replace(unfinished("done", step=3, due=None), state=State.COMPLETED))
    assert [each.id for each in ledger.list(2, only="stuck")] == ["stuck"]
    assert [each.id for each in ledger.list(2, only="completed")] == ["done"]
    assert {each.id for each in ledger.list(9, only="running")} == {f"run-{n}" for n in range(5)}
    with pytest.raises(ConfigurationError, match="never 'tired'"):
        ledger.list(only="tired")


@given(verdicts=st.lists(st.sampled_from(list(Verdict)), max_size=60))
@settings(deadline=None, max_examples=200)
def test_whatever_is_answered_nothing_is_undone_after_the_pivot(verdicts: list[Verdict]) -> None:
    """The model: a list of steps done, to which answers are applied. It ends empty, full, or not at all."""
    saga = trip()
    now = Progress("1", "trip", State.RUNNING, 0, 0, 0, False, 0.0, "{}", None, 0.0, 0.0, 0)
    done: list[int] = []
    for verdict in verdicts:
        if now.state in ENDED or now.stuck:
            break
        now = replace(now, sends=now.sends + 1, waiting=True)
        if verdict is Verdict.DONE:
            done = [*done, now.step] if now.state is State.RUNNING else [n for n in done if n != now.step]
        before, now = now, after(saga, now, verdict, "reason", 1.0)
        if 2 in done:
            assert now.state is not State.COMPENSATING
            assert now.state is not State.REJECTED
        assert before.state is not State.COMPENSATING or now.state is not State.RUNNING
    if now.state is State.COMPLETED:
        assert done == [0, 1, 2, 3]
    elif now.state is State.REJECTED:
        assert done == []


@pytest.mark.parametrize("server", ["postgres", "mariadb"])
async def test_sagas_are_kept_on_servers_too(
    memory: MemoryBroker, registry: Registry, request: pytest.FixtureRequest, server: str
) -> None:
    url = str(request.getfixturevalue(f"{server}_server").url)
    database: Database = load(DATABASES, scheme_of(url))(url)
    with database.transaction() as tx:
        for table in ("bookings", "dragoman_sagas", "dragoman_saga_events", "dragoman_handled"):
            tx.execute(f"DROP TABLE IF EXISTS {table}")
        tx.execute("CREATE TABLE bookings (what VARCHAR(50), traveller VARCHAR(50))")
    saga, people = orchestrate(trip()), Participants(payment=1, ticket=1)
    try:
        async with Client(memory, registry, [saga, *people.endpoints()], database=database), saga.watch():
            rejected = await saga.ended(await saga.start(Trip("Ada")))
            completed = await saga.ended(await saga.start(Trip("Bob")))
        assert rejected.state is State.REJECTED
        assert completed.state is State.COMPLETED
        assert bookings(database) == ["flight", "hotel", "payment", "ticket"]
        assert [each.id for each in Ledger(database).list(only="completed")] == [completed.id]
        assert told(database, completed.id)[-1] == "completed"
    finally:
        database.close()
