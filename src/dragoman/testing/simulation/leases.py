"""The world ``leases``: the engine that decides who owns a partition, on records that fail.

Members read as the broker port tells them to. They join, stop, die, hang and lose their connections; calls
fail before or after they have taken effect; the clocks on the walls are put forward and back; partitions are
added. In the end all of that stops, and every message must be acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from dragoman.core.broker import Subscription
from dragoman.core.errors import DragomanError, Revoked
from dragoman.core.leasing import ROSTER, Change, LeasedReceiver, Membership, Roster, ShareRecord
from dragoman.core.message import Message
from dragoman.testing.simulation.determinism import simulated
from dragoman.testing.simulation.events import Cut, Die, Fault, Hang, Join, Leave
from dragoman.testing.simulation.leasing import Logs, Shelf, SimulatedRecords, SimulatedSource
from dragoman.testing.simulation.loop import Process, SimulatedLoop, State
from dragoman.testing.simulation.network import HANG_S, How, Link, Network
from dragoman.testing.simulation.scenario import Violation

CHANNEL = "c"
MEMBERS = ("ann", "bob", "cy")
OPERATIONS = ("load", "save", "save", "seat", "gone", "partitions", "read", "pick")
LEASE_S = 6.0
HANDOVER_S = 3.0
GONE_AFTER_S = 1.0
"""So long after a connection has broken the server knows it."""
CLOCK_STEPS_S = (-90.0, -5.0, 5.0, 90.0)
QUIET_S = 400.0
"""After so long without faults, everything is acknowledged."""
CLOSE_S = 2 * HANG_S + 10.0


@dataclass(frozen=True, slots=True)
class Publish:
    at: float
    partition: int
    count: int


@dataclass(frozen=True, slots=True)
class Reconnect:
    """The member's connection breaks and is made anew."""

    at: float
    member: str


@dataclass(frozen=True, slots=True)
class Step:
    """The clock on the wall of the member's machine is put forward or back."""

    at: float
    member: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Grow:
    """The channel gets one more partition."""

    at: float


Action = Publish | Join | Leave | Die | Hang | Fault | Cut | Reconnect | Step | Grow


class LeasesWorld:
    """The real ``Membership``, ``LeasedReceiver`` and ``Roster``."""

    name = "leases"

    def events(self, random: Random) -> Sequence[Action]:
        return _script(random)

    def run(self, seed: int, events: Sequence[Action]) -> None:
        setup = Random(f"setup {seed}")
        partitions, disorder = setup.choice((1, 2, 3)), setup.choice((0.0, 0.3, 1.0))
        with simulated(seed, disorder) as loop:
            scene = Scene(loop, partitions, seed)
            try:
                loop.run_until_complete(scene.play(events))
            except BaseException as error:
                error.add_note(f"{partitions} partitions, disorder {disorder}\n{scene.tail()}")
                raise


def _script(random: Random) -> list[Action]:
    trouble, churn = random.choice((0.0, 0.2, 0.5)), random.choice((0.0, 0.2))
    names = MEMBERS[: random.randint(1, len(MEMBERS))]
    gap_s = random.choice((0.05, 0.5, 2.0))
    found: list[Action] = [Join(0.0, name) for name in names]
    at = 0.0
    for _ in range(random.choice((4, 10, 25))):
        at = round(at + random.expovariate(1 / gap_s), 3)
        chance, member = random.random(), random.choice(names)
        if chance < trouble:
            found.append(_trouble(random, at, member))
        elif chance < trouble + churn:
            found.append(random.choice((Join, Join, Leave, Die))(at, random.choice(MEMBERS)))
        else:
            found.append(Publish(at, random.randrange(4), random.choice((1, 1, 2, 5))))
    return found


def _trouble(random: Random, at: float, member: str) -> Action:
    match random.randrange(10):
        case 0:
            return Cut(at, random.choice((member, None)), random.choice((0.5, 4.0, 15.0)))
        case 1:
            return Hang(at, member, random.choice((1.0, 5.0, 20.0)))
        case 2:
            return Reconnect(at, member)
        case 3:
            return Step(at, member, random.choice(CLOCK_STEPS_S))
        case 4:
            return Grow(at)
        case _:
            return Fault(at, member, random.choice(OPERATIONS), random.choice(list(How)))


class Journal:
    """What must hold of the records, checked on each change of one."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._began_at = loop.time()
        self._lines: list[str] = []
        self._epochs: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._writers: dict[tuple[int, int], str] = {}
        self._given_out = 0
        self._roster = ""
        self.handled: dict[int, set[int]] = defaultdict(set)
        self._begun: dict[tuple[int, int, str], int] = {}
        self._seen: set[tuple[int, int, str]] = set()
        self._aside: set[tuple[int, int]] = set()

    def write(self, what: str) -> None:
        self._lines.append(f"  {self._loop.time() - self._began_at:8.3f} {what}")

    def tail(self, lines: int = 40) -> str:
        return "What happened last:\n" + "\n".join(self._lines[-lines:])

    def changed(self, member: str, change: Change) -> None:
        if change.name == ROSTER:
            self._roster_changed(member, Roster.decode(change.data))
        else:
            self._share_changed(member, int(change.name), ShareRecord.decode(change.data))

    def _roster_changed(self, member: str, roster: Roster) -> None:
        owners = {number: f"{owner.member}:{owner.epoch}" for number, owner in roster.owners.items()}
        told = f"roster: members {', '.join(roster.members)}; owners {owners}"
        if told != self._roster:
            self._roster = told
            self.write(f"{told}, by {member}")
        epochs = [owner.epoch for owner in roster.owners.values()]
        if len(set(epochs)) < len(epochs) or max(epochs, default=0) > roster.epochs:
            self._violate("roster", f"Epochs of the roster are not unique: {roster.owners}.")
        if roster.epochs < self._given_out:
            self._violate("roster", f"{member} has the roster give out epochs again.")
        self._given_out = roster.epochs

    def _share_changed(self, member: str, partition: int, record: ShareRecord) -> None:
        progress, epoch = record.progress, record.epoch
        self.write(
            f"record {partition} by {member}: epoch {epoch}, position {progress.position}, "
            f"cursor {progress.cursor}, aside {sorted(progress.aside)}, returned {sorted(progress.returned)}"
        )
        if epoch < self._epochs.get(partition, 0):
            self._violate("fenced", f"{member} changed partition {partition} after it had lost it.")
        self._epochs[partition] = epoch
        if epoch and self._writers.setdefault((partition, epoch), member) != member:
            self._violate("one owner", f"{member} and another own partition {partition} in epoch {epoch}.")
        if progress.committed < self._committed.get(partition, 0):
            self._violate("back", f"{member} put partition {partition} back to {progress.committed}.")
        self._committed[partition] = progress.committed
        waiting = {*progress.aside, *progress.returned}
        self._aside |= {(partition, offset) for offset in waiting}
        for offset in range(progress.position):
            if offset not in waiting and offset not in self.handled[partition]:
                self._violate(
                    "lost", f"{member} acknowledged {partition}@{offset}, which nobody has handled."
                )

    def delivered(self, member: str, epoch: int, message: Message) -> None:
        partition, offset = message.partition or 0, message.offset or 0
        self.write(f"{partition}@{offset} delivered to {member}, attempt {message.attempt}, epoch {epoch}")
        if (partition, offset, member) in self._seen or (partition, offset) in self._aside:
            return
        self._seen.add((partition, offset, member))
        before = self._begun.get((partition, epoch, member), -1)
        if offset < before:
            self._violate("order", f"{member} got {partition}@{offset} after {before}.")
        self._begun[partition, epoch, member] = offset

    def is_done(self, partitions: Sequence[Sequence[Message]], shelf: Shelf) -> bool:
        for number, line in enumerate(partitions):
            stored = shelf.records.get(str(number))
            if line and (stored is None or ShareRecord.decode(stored.data).progress.committed < len(line)):
                return False
        return True

    def _violate(self, rule: str, what: str) -> None:
        self._loop.fail(Violation(what, rule))


class Member:
    """A process that reads, handles and acknowledges as the port allows. ``random`` decides how."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.name = name
        self.process = Process(name)
        self.link = Link(scene.network)
        self.records = SimulatedRecords(scene.shelf, self.link, name)
        self.leaving = asyncio.Event()
        self._scene = scene
        self._random = Random(f"{name} {scene.seed}")
        self._opened = 0
        self._flying: dict[int, dict[int, Message]] = {}
        self._finished: set[tuple[int, int]] = set()
        """Handled. A member whose acknowledgement failed repeats it; it must not release them."""
        self.task = scene.loop.spawn(self.process, self._live(), "main")

    @property
    def is_alive(self) -> bool:
        return self.process.state is not State.DEAD and not self.task.done()

    async def _live(self) -> None:
        reading = asyncio.create_task(self._read(), name=f"{self.name} reading")
        await self.leaving.wait()
        reading.cancel()
        await asyncio.wait([reading])

    async def _read(self) -> None:
        while True:
            receiver = None
            try:
                receiver, membership = await self._open()
                await self._work(receiver, membership)
            except DragomanError as error:
                self._scene.journal.write(f"{self.name} gives up its receiver: {error}")
                await asyncio.sleep(0.5)
            finally:
                if receiver is not None:
                    with contextlib.suppress(DragomanError):
                        await self._finish(receiver)

    async def _open(self) -> tuple[LeasedReceiver, Membership]:
        scene = self._scene
        self._opened += 1
        self._flying.clear()
        source = SimulatedSource(scene.loop, scene.logs, self.link)
        name = f"{self.name}.{self._opened}"

        async def starts(channel: str) -> Sequence[int]:
            return [0] * await source.partitions(channel)

        subscription = Subscription((CHANNEL,), "g")
        membership = Membership(CHANNEL, name, subscription, self.records, starts, LEASE_S, HANDOVER_S)
        await membership.join(await source.partitions(CHANNEL))
        return LeasedReceiver(source, [membership], "g"), membership

    async def _work(self, receiver: LeasedReceiver, membership: Membership) -> None:
        random, failures = self._random, 0
        while True:
            try:
                await self._receive(receiver, membership)
                if random.random() < 0.3:
                    await asyncio.sleep(random.choice((0.0, 0.1, 2.0)))
                    await receiver.extend()
                for partition in list(self._flying):
                    await self._handle(receiver, partition)
                failures = 0
            except Revoked:
                self._forget_lost(receiver)
            except DragomanError as error:
                failures += 1
                self._scene.journal.write(f"{self.name}: {error}")
                if failures >= 3 or receiver.closed:
                    raise
                await asyncio.sleep(0.2)

    async def _receive(self, receiver: LeasedReceiver, membership: Membership) -> None:
        random = self._random
        limit, wait = random.choice((1, 2, 5)), random.choice((0.0, 0.5, 1.0, 2.0))
        patience = random.choice((0.0, 0.001, 0.02)) if random.random() < 0.2 else None
        messages: Sequence[Message] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                messages = await receiver.receive(limit, wait)
        for message in messages:
            partition, offset = message.partition or 0, message.offset or 0
            if (share := membership.shares.get(partition)) is not None and not receiver.lost(message):
                self._scene.journal.delivered(self.name, share.record.epoch, message)
            self._flying.setdefault(partition, {})[offset] = message
            self._finished.discard((partition, offset))

    async def _handle(self, receiver: LeasedReceiver, partition: int) -> None:
        """Handle some messages in order, acknowledge the last of them, perhaps give back the next one."""
        random, calm = self._random, self._scene.is_calm
        self._forget_lost(receiver)
        flying = self._flying.get(partition, {})
        offsets = sorted(flying)
        handled = offsets if calm else offsets[: random.randint(0, len(offsets))]
        if handled:
            self._scene.journal.handled[partition].update(handled)
            self._finished |= {(partition, offset) for offset in handled}
            last = flying[handled[-1]]
            await receiver.acknowledge([last])
            for offset in handled:
                del flying[offset]
        unhandled = [each for each in sorted(flying) if (partition, each) not in self._finished]
        if unhandled and random.random() < 0.3 and not calm:
            offset = random.choice(unhandled)
            delay = random.choice((0.0, 0.5, 3.0))
            message = flying[offset]
            for later in [each for each in flying if each >= offset]:
                del flying[later]
            self._scene.journal.write(f"{self.name} releases {partition}@{offset} for {delay} s")
            await receiver.release([message], delay)

    def _forget_lost(self, receiver: LeasedReceiver) -> None:
        for flying in self._flying.values():
            for offset in [offset for offset, message in flying.items() if receiver.lost(message)]:
                del flying[offset]

    async def _finish(self, receiver: LeasedReceiver) -> None:
        """Acknowledge what can be, as a client does that closes, then leave."""
        try:
            for partition in list(self._flying):
                with contextlib.suppress(Revoked):
                    await self._handle(receiver, partition)
        finally:
            self._scene.journal.write(f"{self.name} closes")
            await receiver.close()


class Scene:
    def __init__(self, loop: SimulatedLoop, partitions: int, seed: int) -> None:
        self.loop = loop
        self.seed = seed
        self.network = Network(Random(f"network {seed}"))
        self.journal = Journal(loop)
        self.shelf = Shelf(self.journal.changed)
        self.logs = Logs(CHANNEL, partitions)
        self.is_calm = False
        self._members: dict[str, Member] = {}
        self._born = 0
        self._began_at = loop.time()

    def tail(self) -> str:
        return self.journal.tail()

    async def play(self, events: Sequence[Action]) -> None:
        for event in events:
            await asyncio.sleep(max(0.0, event.at - (self.loop.time() - self._began_at)))
            if not isinstance(event, Publish):
                self.journal.write(repr(event))
            self._apply(event)
        await self._calm_down()

    def _apply(self, event: Action) -> None:
        match event:
            case Publish(partition=partition, count=count):
                for _ in range(count):
                    self.logs.append(partition % len(self.logs.lines))
            case Grow():
                self.logs.grow()
            case Join(member=name):
                self._join(name)
            case Cut(member=None, seconds=seconds):
                self.network.is_down = True
                self.loop.call_later(seconds, setattr, self.network, "is_down", False)
            case _:
                member = self._members.get(event.member or "")
                if member is not None and member.is_alive:
                    self._happen_to(member, event)

    def _happen_to(self, member: Member, event: Action) -> None:
        match event:
            case Leave():
                member.leaving.set()
            case Die():
                self.loop.kill(member.process)
                self._disconnect(member)
            case Hang(seconds=seconds):
                self.loop.pause(member.process)
                self.loop.call_later(seconds, self.loop.resume, member.process)
            case Fault(operation=operation, how=how):
                member.link.fail(operation, how)
            case Cut(seconds=seconds):
                member.link.is_cut = True
                self.loop.call_later(seconds, setattr, member.link, "is_cut", False)
            case Reconnect():
                self._disconnect(member)
                member.records.seats += 1
            case Step(seconds=seconds):
                member.process.clock_offset_s += seconds

    def _disconnect(self, member: Member) -> None:
        self.loop.call_later(GONE_AFTER_S, self.shelf.gone.add, member.records.own_seat)

    def _join(self, name: str) -> None:
        known = self._members.get(name)
        if known is None or not known.is_alive:
            self._born += 1
            self._members[name] = Member(self, f"{name}{self._born}")

    async def _calm_down(self) -> None:
        """All faults stop. If no member is left, one more joins. Everything must be acknowledged then."""
        self.journal.write("all faults stop")
        self.is_calm = True
        self.network.is_down = False
        for member in self._members.values():
            member.link.heal()
            member.process.clock_offset_s = 0.0
            self.loop.resume(member.process)
        if not any(not each.leaving.is_set() for each in self._alive()):
            self._join("dee")
        if not await self._until(lambda: self.journal.is_done(self.logs.lines, self.shelf), QUIET_S):
            raise Violation("Not everything is acknowledged in the end.", "stands still")
        for member in self._alive():
            member.leaving.set()
            await asyncio.wait([member.task], timeout=CLOSE_S)
            if member.is_alive:
                raise Violation(f"{member.name} does not close.\n{self.loop.stacks()}", "close")

    def _alive(self) -> list[Member]:
        return [each for each in self._members.values() if each.is_alive]

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        deadline = self.loop.time() + seconds
        while not is_so():
            if self.loop.time() >= deadline:
                return False
            await asyncio.sleep(0.25)
        return True
