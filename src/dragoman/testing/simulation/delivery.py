"""The world ``delivery``: real clients on a broker double, with everything that may go wrong.

Clients join, leave, hang and die; handlers end in every way there is; calls to the broker fail before or
after they have taken effect; partitions move. In the end all faults stop, and one healthy client must get
everything done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from dragoman.client.client import Client
from dragoman.client.delivery import Delivery
from dragoman.client.endpoint import endpoint
from dragoman.client.options import ClientOptions, EndpointOptions, RetryOptions
from dragoman.client.outcome import Handler, Outcome
from dragoman.core.broker import Acknowledgement
from dragoman.core.errors import DragomanError
from dragoman.core.message import Message
from dragoman.testing.simulation.broker import Connection, Event, Kind, Place, Server, told
from dragoman.testing.simulation.determinism import simulated
from dragoman.testing.simulation.events import Cut, Die, Fault, Hang, Join, Leave
from dragoman.testing.simulation.jobs import (
    CHANNELS,
    FAILING,
    IN_THREADS,
    QUICK,
    RARE,
    Ending,
    Job,
    prepared,
    work,
    work_in_thread,
)
from dragoman.testing.simulation.ledger import Ledger
from dragoman.testing.simulation.loop import Process, SimulatedLoop, State
from dragoman.testing.simulation.network import How, Network
from dragoman.testing.simulation.scenario import Violation

GROUP = "workers"
MEMBERS = ("ann", "bob", "cy")
OPERATIONS = ("receive", "acknowledge", "release", "extend", "publish", "subscribe", "close")
SHAPES = ("value", "value", "middleware", "batch", "thread")
"""What a handler is. Each goes another way through the client."""
KEYS = (b"x", b"y", b"z", None)

FAIR_S = 120.0
"""After so long without faults, only partitions stand still whose own handlers hang."""
QUIET_S = 900.0
"""After so long without faults, nothing waits any more."""
CLOSE_S = 24.0
"""A client that closes is done after so long, if its calls and handlers return."""
END_S = 240.0
"""A program that ends is over after so long, whatever its handlers do."""


@dataclass(frozen=True, slots=True)
class Publish:
    at: float
    number: int
    channel: str
    key: bytes | None
    ending: Ending


@dataclass(frozen=True, slots=True)
class TearDown:
    """All tasks of the process are cancelled, as ``asyncio.run`` does when its program ends."""

    at: float
    member: str


@dataclass(frozen=True, slots=True)
class Move:
    """The broker takes a partition away from its owner."""

    at: float
    channel: str
    partition: int


Action = Publish | Join | Leave | Die | TearDown | Hang | Fault | Cut | Move


@dataclass(frozen=True, slots=True)
class Setup:
    """What does not change during a scenario. The seed decides it."""

    kind: Kind
    shape: str
    partitions: int
    concurrency: int
    window: int
    batch_size: int
    attempts: int
    disorder: float

    @classmethod
    def of(cls, seed: int) -> Setup:
        random = Random(f"setup {seed}")
        each = random.random() < 0.2
        return cls(
            Kind(
                Acknowledgement.EACH if each else Acknowledgement.CUMULATIVE,
                holding=random.random() < 0.8,
                leaving=random.random() < 0.7,
            ),
            random.choice(SHAPES),
            random.choice((1, 1, 2)),
            random.choice((1, 1, 4)),
            random.choice((1, 8, 8, 512)),
            random.choice((2, 5)),
            random.choice((1, 2)),
            random.choice((0.0, 0.3, 1.0)),
        )


class DeliveryWorld:
    """The real ``Client``, from receiving to acknowledging. ``member`` gives what runs in each process."""

    name = "delivery"

    def events(self, random: Random) -> Sequence[Action]:
        return Script(random).actions()

    def run(self, seed: int, events: Sequence[Action]) -> None:
        setup = Setup.of(seed)
        prepared()
        with simulated(seed, setup.disorder) as loop:
            scene = Scene(loop, setup, seed)
            try:
                loop.run_until_complete(scene.play(events))
            except BaseException as error:
                error.add_note(f"{setup}\nThe last that the broker saw:\n{scene.tail()}")
                raise


class Script:
    """Makes up what happens: first how bad it gets, then each event."""

    def __init__(self, random: Random) -> None:
        self._random = random
        bad = random.choice((0, 0, 1, 2, 4, 8))
        self._endings = [*QUICK, *random.sample(FAILING, bad)]
        if random.random() < 0.25:
            self._endings.append(random.choice(RARE))
        self._trouble = random.choice((0.0, 0.1, 0.3, 0.6))
        """The share of events that are faults."""
        self._churn = random.choice((0.0, 0.15, 0.4))
        """The share of events that are members who come and go."""
        self._theme = random.choice((*["any"] * 6, "stuck", "rolling"))
        """``stuck``: one handler hangs, and much waits behind it. ``rolling``: nothing fails, and clients
        that have much to do are closed and started."""
        if self._theme != "any":
            self._endings, self._trouble = list(QUICK), 0.0
            self._churn = 0.4 if self._theme == "rolling" else 0.0
        self._members = random.randint(1, len(MEMBERS))
        self._gap_s = random.choice((0.02, 0.3, 2.0))
        self._bursts = random.choice(((1, 1, 3, 6), (1, 12))) if self._theme == "any" else (1, 12)
        """How many messages come together."""

    def actions(self) -> list[Action]:
        random, at, number = self._random, 0.0, 0
        found: list[Action] = [Join(0.0, member) for member in MEMBERS[: self._members]]
        for _ in range(random.choice((3, 8, 15))):
            at = round(at + random.expovariate(1 / self._gap_s), 3)
            chance = random.random()
            if chance < self._trouble:
                found.append(self._fault(at))
            elif chance < self._trouble + self._churn:
                found.append(self._coming(at))
            else:
                channel = random.choice(CHANNELS)
                for _ in range(random.choice(self._bursts)):
                    number += 1
                    found.append(self._job(at, number, channel))
        return found

    def _job(self, at: float, number: int, channel: str) -> Publish:
        random = self._random
        ending = random.choice(self._endings) if random.random() < 0.4 else Ending.RETURN
        if self._theme == "stuck" and number == 1:
            ending = Ending.HANG
        channel = channel if random.random() < 0.8 else random.choice(CHANNELS)
        return Publish(at, number, channel, random.choice(KEYS), ending)

    def _fault(self, at: float) -> Action:
        random, member = self._random, self._random.choice(MEMBERS[: self._members])
        match random.randrange(8):
            case 0:
                return Cut(at, random.choice((member, None)), random.choice((0.5, 5.0, 15.0)))
            case 1:
                return Move(at, random.choice(CHANNELS), random.randrange(2))
            case 2:
                return Hang(at, member, random.choice((1.0, 20.0)))
            case _:
                operation = random.choice((*OPERATIONS, "publish", "acknowledge"))
                return Fault(at, member, operation, random.choice(list(How)))

    def _coming(self, at: float) -> Action:
        kinds = (Join, Join, Join, Leave, Leave, Die, TearDown)
        kind = self._random.choice(kinds if self._theme == "any" else (Join, Leave))
        return kind(at, self._random.choice(MEMBERS))


class Member:
    """One process with a client in it."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.name = name
        self.process = Process(name)
        self.connection = Connection(scene.server, name)
        self.leaving = asyncio.Event()
        self.is_disturbed = False
        """It was paused or killed, or a partition was taken from it."""
        self.is_torn_down = False
        """Its program ends without closing the client first."""
        self.closed_in_s: float | None = None
        self._scene = scene
        self.task = scene.loop.spawn(self.process, self._live(), "main")

    @property
    def is_alive(self) -> bool:
        return self.process.state is not State.DEAD and not self.task.done()

    async def _live(self) -> None:
        """Run the client until it is to leave. Where it cannot start it is started again."""
        scene = self._scene
        while not self.leaving.is_set():
            failures = self.connection.link.failures
            client = Client(self.connection, prepared()[0], scene.endpoints(self.name), options=scene.options)
            try:
                async with client:
                    await self.leaving.wait()
                    asked_at, failures = scene.loop.time(), self.connection.link.failures
                    scene.ledger.closing[self.name] = partial(self._closes_undisturbed, failures)
            except DragomanError as error:
                if self.connection.link.failures == failures:
                    scene.loop.fail(error)
                await asyncio.sleep(1.0)
            else:
                self.closed_in_s = scene.loop.time() - asked_at

    def _closes_undisturbed(self, failures: int) -> bool:
        return not self.is_disturbed and self.connection.link.failures == failures


class Scene:
    """One run: broker, members and handlers."""

    def __init__(self, loop: SimulatedLoop, setup: Setup, seed: int) -> None:
        self.loop = loop
        self.setup = setup
        self.server = Server(loop, Network(Random(f"network {seed}")), setup.kind, self._listen)
        lanes = 1 if setup.shape == "batch" else setup.concurrency
        self.ledger = Ledger(loop.fail, lanes > 1, setup.shape == "thread")
        self.options = ClientOptions(group=GROUP, window=setup.window, partitions=setup.partitions)
        self._members: dict[str, Member] = {}
        """The latest of each name."""
        self._all_members: list[Member] = []
        self._calls: dict[int, int] = {}
        self._released = False
        self._hanging: list[asyncio.Future[None]] = []
        self._hanging_places: set[Place] = set()
        self._began_at = loop.time()
        loop.on_exit = self._exit
        for channel in CHANNELS:
            self.server.create(channel, setup.partitions)

    def tail(self, events: int = 30) -> str:
        return "\n".join(
            f"  {event.at - self._began_at:8.3f} {told(event)}" for event in self.server.history[-events:]
        )

    def _listen(self, event: Event) -> None:
        self.ledger.listen(event)

    # Handlers

    def endpoints(self, member: str) -> list[object]:
        setup = self.setup
        options = EndpointOptions(
            retry=RetryOptions(attempts=setup.attempts),
            concurrency=setup.concurrency,
            batch_size=setup.batch_size,
        )
        middleware = [_around] if setup.shape == "middleware" else []
        return [
            endpoint(channel, options=options, middleware=middleware)(self._handler(member))
            for channel in CHANNELS
        ]

    def _handler(self, member: str) -> Callable[..., Any]:
        async def by_value(job: Job) -> None:
            await self._handle(member, [job])

        async def by_batch(jobs: list[Job]) -> None:
            await self._handle(member, jobs)

        def in_thread(job: Job) -> None:
            self._begin(member, [job])
            work_in_thread(job, self._calls[job.number])
            self.ledger.done(member, [job.number])

        shapes: dict[str, Callable[..., Any]] = {"batch": by_batch, "thread": in_thread}
        return shapes.get(self.setup.shape, by_value)

    def _begin(self, member: str, jobs: Sequence[Job]) -> list[int]:
        numbers = [job.number for job in jobs]
        for number in numbers:
            self._calls[number] = self._calls.get(number, 0) + 1
        self.ledger.begin(member, numbers)
        return numbers

    async def _handle(self, member: str, jobs: Sequence[Job]) -> None:
        numbers = self._begin(member, jobs)
        try:
            for job in jobs:
                await work(job, self._calls[job.number], self._hang)
            self.ledger.done(member, numbers)
        finally:
            self.ledger.end(member, numbers)

    def _hang(self) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self.loop.create_future()
        if self._released:
            future.set_result(None)
        self._hanging.append(future)
        return future

    # Events

    async def play(self, events: Sequence[Action]) -> None:
        for event in events:
            await asyncio.sleep(max(0.0, event.at - (self.loop.time() - self._began_at)))
            self._apply(event)
        await self._calm_down()
        await self._finish()
        self.ledger.check_end()

    def _apply(self, event: Action) -> None:
        match event:
            case Publish():
                self._publish(event)
            case Join(member=name):
                self._join(name)
            case Cut(member=None, seconds=seconds):
                self.server.network.is_down = True
                self.loop.call_later(seconds, setattr, self.server.network, "is_down", False)
            case Move(channel=channel, partition=partition):
                for each in self._members.values():
                    each.is_disturbed = True
                self.server.move((channel, partition))
            case _:
                member = self._members.get(event.member or "")
                if member is not None and member.is_alive:
                    self._happen_to(member, event)

    def _happen_to(self, member: Member, event: Action) -> None:
        match event:
            case Leave():
                member.leaving.set()
            case Die():
                member.is_disturbed = True
                self.loop.kill(member.process)
            case TearDown():
                self._exit(member.process)
            case Hang(seconds=seconds):
                member.is_disturbed = True
                self.loop.pause(member.process)
                self.loop.call_later(seconds, self.loop.resume, member.process)
            case Fault(operation=operation, how=how):
                member.connection.link.fail(operation, how)
            case Cut(seconds=seconds):
                member.connection.link.is_cut = True
                self.loop.call_later(seconds, setattr, member.connection.link, "is_cut", False)

    def _publish(self, event: Publish) -> None:
        ending = event.ending
        if self.setup.shape == "thread" and ending not in IN_THREADS:
            ending = Ending.RETURN
        payload = prepared()[1](Job(event.number, str(ending)))
        if ending is Ending.UNREADABLE:
            payload = payload[:-3]
        message = Message(event.channel, payload, event.key)
        # The ledger knows the job before a handler can.
        [position] = self.server.append([message])
        kept = message._replace(partition=position.partition, offset=position.offset)
        self.ledger.expect(event.number, kept, ending)
        if ending is Ending.HANG:
            self._hanging_places.add((position.channel, position.partition))

    def _join(self, name: str) -> None:
        known = self._members.get(name)
        if known is not None and known.is_alive:
            return
        member = Member(self, f"{name}{len(self._all_members) + 1}")
        self._members[name] = member
        self._all_members.append(member)

    def _exit(self, process: Process) -> None:
        """The program ends as ``asyncio.run`` ends it: all tasks are cancelled, and then it is over."""
        for member in self._members.values():
            if member.process is process:
                member.is_disturbed = member.is_torn_down = True
                self.loop.create_task(self._end_program(member), name=f"end of {member.name}")

    async def _end_program(self, member: Member) -> None:
        tasks = member.process.unfinished
        for task in tasks:
            task.cancel()
        if tasks:
            _, running = await asyncio.wait(tasks, timeout=END_S)
            if running and member.process.state is State.RUNNING:
                self.loop.fail(Violation(f"The program of {member.name} does not end: {running}", "end"))
        self.loop.kill(member.process)

    # The end

    async def _calm_down(self) -> None:
        """All faults stop. If no client is left, one more joins. Everything must be done then."""
        self.server.network.is_down = False
        for member in self._members.values():
            member.connection.link.heal()
            self.loop.resume(member.process)
        await self._until(lambda: not any(each.leaving.is_set() for each in self._alive()), END_S)
        if not self._alive():
            self._join("dee")
        is_fair = self.setup.kind.holding and self.setup.window > 1
        if self._hanging_places and is_fair:
            await self._expect_done(FAIR_S, "Held up by others", self._hanging_places)
        self._released = True
        for future in self._hanging:
            if not future.done():
                future.set_result(None)
        await self._expect_done(QUIET_S, "Stands still")

    async def _expect_done(self, seconds: float, else_: str, but: Collection[Place] = ()) -> None:
        if not await self._until(lambda: not self.ledger.unsettled(but), seconds):
            spots = [f"{place[0]}-{place[1]}@{offset}" for place, offset in self.ledger.unsettled(but)]
            raise Violation(f"{else_}: {', '.join(spots)}", else_)

    async def _finish(self) -> None:
        """The clients that are left close, in time and without leaving anything behind."""
        for member in self._alive():
            member.leaving.set()
            await asyncio.wait([member.task], timeout=END_S)
            if member.is_alive:
                raise Violation(f"{member.name} does not close.\n{self.loop.stacks()}", "close")
            if member.closed_in_s is not None and member.closed_in_s > CLOSE_S:
                raise Violation(f"{member.name} took {member.closed_in_s:.1f} s to close.", "slow close")
        for member in self._all_members:
            left = member.process.unfinished
            if member.is_torn_down or member.process.state is State.DEAD:
                continue
            if not member.connection.is_closed:
                raise Violation(f"{member.name} is closed, and has left a receiver open.", "left receiver")
            if left:
                raise Violation(f"{member.name} is closed, and these tasks go on: {left}", "left tasks")

    def _alive(self) -> list[Member]:
        return [each for each in self._members.values() if each.is_alive]

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        deadline = self.loop.time() + seconds
        while not is_so():
            # A program may end of its own accord meanwhile.
            if not self._alive():
                self._join("eve")
            if self.loop.time() >= deadline:
                return False
            await asyncio.sleep(0.25)
        return True


async def _around(delivery: Delivery, next: Handler) -> Outcome:
    return await next(delivery)
