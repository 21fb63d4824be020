"""A power failure takes the end of the log: no offset is given twice, no later message is passed over."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.adapters.embedded import EmbeddedBroker, offsets
from dragoman.adapters.embedded.appender import Appender
from dragoman.adapters.embedded.block import draft
from dragoman.adapters.embedded.bounds import Bounds
from dragoman.adapters.embedded.reader import MessageReader
from dragoman.adapters.embedded.segment import SegmentFile, log_path
from dragoman.client.history import messages_of
from dragoman.core.broker import Subscription
from dragoman.core.channel import Channel
from dragoman.core.disk import OperatingSystem
from dragoman.core.errors import BrokerUnavailable, DamagedLog
from dragoman.core.message import Message, Position

PARTITIONS = 3
RECORD = 32
"""Bytes of one partition in the file of bounds."""
STARTERS = ("publisher", "consumer", "second", "delayed")
Place = tuple[int, int]


@contextmanager
def machine(boot: int) -> Iterator[None]:
    """The machine was started so many times."""
    with patch.object(OperatingSystem, "boot_id", lambda _: b"boot-%d" % boot):
        yield


@dataclass
class Failure:
    """What is in each partition when the power fails, and what of it is on the disk."""

    synced: list[int]
    unsynced: list[int]
    seen: list[int]
    """How many the second group has acknowledged."""
    cut: list[float]
    """How much of what is not synced gets to the disk all the same, from 0 to 1."""
    bounds: list[bool]
    """Whether the bounds on the disk are the newest ones."""
    remembered: bool
    """Whether the position of the first group is on the disk. A checkpoint elsewhere is in any case."""
    order: Sequence[str]
    """Who starts first after it."""


def each(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, min_size=PARTITIONS, max_size=PARTITIONS)


FAILURES = st.builds(
    Failure,
    synced=each(st.integers(0, 5)),
    unsynced=each(st.integers(0, 8)),
    seen=each(st.integers(0, 4)),
    cut=each(st.floats(0.0, 1.0)),
    bounds=each(st.booleans()),
    remembered=st.booleans(),
    order=st.permutations(STARTERS),
)


def numbered(name: str, count: int, partition: int) -> list[Message]:
    return [Message("c", f"{name} {partition} {one}".encode(), partition=partition) for one in range(count)]


def places(positions: Sequence[Position | None]) -> list[Place]:
    return [(one.partition or 0, one.offset or 0) for one in positions if one is not None]


def segment(root: Path, partition: int) -> Path:
    return log_path(root / "channels" / "1" / str(partition), 0)


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def ends(root: Path) -> list[int]:
    """Behind the last whole block of each partition."""
    found = []
    for partition in range(PARTITIONS):
        path, end = segment(root, partition), 0
        if path.exists():
            file = SegmentFile(path.parent, 0)
            end = max((block.end for _, block in file.blocks(0) if block.whole), default=0)
            file.close()
        found.append(end)
    return found


async def handle(broker: EmbeddedBroker, group: str, count: list[int]) -> None:
    """The group takes so many messages of each partition, and acknowledges them."""
    receiver = await broker.subscribe(Subscription(("c",), group, start="earliest"))
    left = sum(count)
    async with asyncio.timeout(60):
        while left:
            for message in await receiver.receive(1, 1.0):
                if (message.offset or 0) < count[message.partition or 0]:
                    await receiver.acknowledge([message])
                    left -= 1
    await receiver.close()


async def before(root: Path, failure: Failure) -> tuple[list[Place], list[int], bytes]:
    """Until the power fails: all offsets that were confirmed, and the files' sizes and bounds at the sync."""
    broker = EmbeddedBroker(f"embedded://{root}/old")
    await broker.connect()
    await broker.create(Channel("c", PARTITIONS))
    given: list[Place] = []
    for partition in range(PARTITIONS):
        given += places(await broker.publish(numbered("synced", failure.synced[partition], partition)))
    await handle(broker, "second", [min(pair) for pair in zip(failure.seen, failure.synced, strict=True)])
    sizes = [size_of(segment(root / "old", partition)) for partition in range(PARTITIONS)]
    bounds = (root / "old/channels/1/bounds").read_bytes()
    for partition in range(PARTITIONS):
        for message in numbered("unsynced", failure.unsynced[partition], partition):
            given += places(await broker.publish([message]))
    both = zip(failure.synced, failure.unsynced, strict=True)
    await handle(broker, "consumer", [sum(pair) for pair in both])
    await broker.publish(numbered("delayed", 2, 0) + numbered("delayed", 1, 1), delay=3600.0)
    shutil.copytree(root / "old", root / "new")
    await broker.close()
    return given, sizes, bounds


def fail(root: Path, failure: Failure, sizes: list[int], bounds: bytes) -> None:
    for partition in range(PARTITIONS):
        path = segment(root, partition)
        if path.exists():
            unsynced = path.stat().st_size - sizes[partition]
            os.truncate(path, sizes[partition] + int(unsynced * failure.cut[partition]))
        if not failure.bounds[partition]:
            with (root / "channels/1/bounds").open("r+b") as file:
                file.seek(partition * RECORD)
                file.write(bounds[partition * RECORD : (partition + 1) * RECORD])
    if not failure.remembered:
        change(root, "UPDATE share SET position = 0, cursor = 0 WHERE team = 'consumer'")


def change(root: Path, statement: str) -> None:
    with closing(sqlite3.connect(root / "broker.db", isolation_level=None, timeout=60)) as database:
        database.execute(statement)


async def drained(broker: EmbeddedBroker, group: str) -> tuple[set[bytes], set[Place]]:
    """All that the group gets until it is at the end, and the offsets that are reported as damaged."""
    receiver = await broker.subscribe(Subscription(("c",), group, start="earliest"))
    got: set[bytes] = set()
    damaged: set[Place] = set()
    async with asyncio.timeout(60):
        while any(lag.committed < lag.end for lag in await broker.lag("c", group)):
            try:
                messages = await receiver.receive(100, 0.05)
            except DamagedLog:
                for one in await broker.skip_damage("c", group):
                    damaged |= {(one.partition, offset) for offset in range(one.first, one.until)}
                continue
            got |= {message.payload or b"" for message in messages}
            await receiver.acknowledge(messages)
    await receiver.close()
    return got, damaged


async def start(root: Path, order: Sequence[str], given: list[Place]) -> set[bytes]:
    """Each starts after the other, and is closed at the end; the new messages."""
    running = []
    fresh = {b"delayed 0 0", b"delayed 0 1", b"delayed 1 0"}
    for starter in order:
        if starter == "delayed":
            change(root, "UPDATE delayed SET due = 0")
        broker = EmbeddedBroker(f"embedded://{root}")
        await broker.connect()
        running.append(broker)
        if starter == "publisher":
            messages = [one for number in range(PARTITIONS) for one in numbered("fresh", 4, number)]
            given += places(await broker.publish(messages))
            fresh |= {message.payload or b"" for message in messages}
        elif starter != "delayed":
            await broker.subscribe(Subscription(("c",), starter, start="earliest"))
    for broker in running:
        await broker.close()
    return fresh


def history(broker: EmbeddedBroker, checkpoint: list[int]) -> set[bytes]:
    """All that a reader finds that remembers offsets itself."""
    log = broker.log()
    found = set()
    for partition, (_, end) in log.partitions("c").items():
        at = checkpoint[partition]
        while at < end:
            part = log.read("c", partition, at, end)
            found |= {message.payload or b"" for message in messages_of(part, "c", partition)}
            assert part.next_offset > at
            at = part.next_offset
    log.close()
    return found


async def check(root: Path, failure: Failure) -> None:
    with machine(1):
        given, sizes, bounds = await before(root, failure)
    root /= "new"
    fail(root, failure, sizes, bounds)
    kept = ends(root)
    lost = {(partition, offset) for partition, offset in given if offset >= kept[partition]}
    with machine(2):
        fresh = await start(root, failure.order, given)
        assert len(given) == len(set(given)), "no offset is given out twice"
        broker = EmbeddedBroker(f"embedded://{root}")
        await broker.connect()
        checkpoint = [sum(pair) for pair in zip(failure.synced, failure.unsynced, strict=True)]
        assert fresh <= history(broker, checkpoint)
        got, damaged = await drained(broker, "consumer")
        assert fresh <= got
        assert not (failure.remembered and damaged), "this group has seen what is lost"
        got, damaged = await drained(broker, "second")
        assert fresh <= got
        known = {(number, offset) for number, offset in lost if failure.remembered or failure.bounds[number]}
        assert damaged == known, "what is known to be lost is reported, and nothing else"
        await broker.close()


@settings(max_examples=20, deadline=None)
@given(failure=FAILURES)
def test_whoever_starts_first_no_later_message_is_passed_over(failure: Failure) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder), failure))


@pytest.mark.parametrize("order", [STARTERS, STARTERS[::-1], ("consumer", "publisher", "delayed", "second")])
@pytest.mark.parametrize("remembered", [True, False])
def test_all_that_was_not_synced_is_lost(tmp_path: Path, order: tuple[str, ...], remembered: bool) -> None:
    none = [0.0] * PARTITIONS
    failure = Failure([5, 1, 0], [8, 3, 1], [4, 0, 0], none, [False] * PARTITIONS, remembered, order)
    asyncio.run(check(tmp_path, failure))


class Disk:
    """What each file had when it was last synced."""

    def __init__(self, folder: Path) -> None:
        self.refuses = False
        self.durable = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def fsync(self, file: int) -> None:
        if self.refuses:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        path = Path(f"/proc/self/fd/{file}").readlink()
        if path.is_file():
            self.durable[path] = path.read_bytes()


class Partition:
    """A partition whose processes are killed, and whose machine loses its power."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "0").mkdir()
        bounds = Bounds(folder / "bounds", create=True)
        bounds.grow(1)
        bounds.close()
        self.disk = Disk(folder)
        self.boot = 1
        self.given: set[int] = set()

    def open(self) -> None:
        self.bounds = Bounds(self.folder / "bounds")
        self.appender = Appender(self.folder / "0", self.bounds, 0, segment_bytes=200, fsync="batch")
        self.appender.recover()

    def close(self) -> None:
        self.appender.close()
        self.bounds.close()

    def append(self, count: int) -> None:
        messages = [Message("c", b"x", timestamp=0)] * count
        [offset] = self.appender.append([draft(messages, now=0)], wait=True)
        found = set(range(offset, offset + count))
        assert not found & self.given
        self.given |= found

    def read(self) -> set[int]:
        """The offsets that can be read; all others before the end are gaps or reported."""
        start, end = self.bounds.one(0)
        reader = MessageReader(self.folder / "0", "c", 0, self.bounds)
        found: set[int] = set()
        while start < end:
            try:
                messages = reader.read(start, end, 1000)
            except DamagedLog as error:
                start = error.until
                continue
            found |= {message.offset or 0 for message in messages}
            if not messages:
                break
            start = (messages[-1].offset or 0) + 1
        reader.close()
        return found

    def reopen(self) -> None:
        self.close()
        self.open()

    def step(self, step: str, how: Any) -> None:
        if step == "append":
            self.append(how)
        elif step == "refuse":
            self.disk.refuses = True
            with contextlib.suppress(BrokerUnavailable):
                self.append(9)
                self.appender.sync()
            self.disk.refuses = False
            self.reopen()
        elif step == "sync":
            self.appender.sync()
        elif step == "power":
            self.lose_power(how)
        else:
            if step == "close":
                self.appender.settle()
            self.reopen()

    @contextmanager
    def running(self) -> Iterator[None]:
        """With few offsets reserved at a time, so that steps meet the end of what is reserved."""
        with (
            patch.object(OperatingSystem, "fsync", lambda _, file: self.disk.fsync(file)),
            patch.object(offsets, "AT_ONCE", 7),
            patch.object(OperatingSystem, "boot_id", lambda _: b"boot-%d" % self.boot),
        ):
            self.open()
            yield

    def lose_power(self, kept: float) -> None:
        self.close()
        for path in [path for path in self.folder.rglob("*") if path.is_file()]:
            data, durable = path.read_bytes(), self.disk.durable.get(path, b"")
            if path.suffix == ".log" and data.startswith(durable):
                durable = data[: len(durable) + int((len(data) - len(durable)) * kept)]
            path.write_bytes(durable)
        self.boot += 1
        self.open()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 9)),
        st.tuples(st.just("power"), st.floats(0.0, 1.0)),
        st.sampled_from([("sync", 0), ("kill", 0), ("close", 0), ("refuse", 0)]),
    ),
    max_size=20,
)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_no_offset_is_given_out_twice(steps: list[tuple[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        partition = Partition(Path(folder))
        with partition.running():
            for step, how in [*steps, ("append", 1)]:
                partition.step(step, how)
            assert partition.read() <= partition.given
            partition.close()


def test_messages_of_a_process_that_died_are_synced_before_offsets_are_given_back(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    with partition.running():
        partition.append(1)
        ours = partition.appender
        partition.open()
        partition.append(3)
        partition.appender.close()
        partition.appender = ours
        ours.settle()
        assert partition.read() == partition.given
        partition.lose_power(0.0)
        assert partition.read() == partition.given
        partition.append(1)
        assert max(partition.given) == 4, "no offset is left out"
        partition.close()


def test_offsets_that_a_dead_process_wrote_and_did_not_sync_are_not_given_out(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    with partition.running():
        partition.disk.refuses = True
        with pytest.raises(BrokerUnavailable):
            partition.append(1)
        partition.disk.refuses = False
        partition.reopen()
        partition.append(2)
        partition.append(9)
        partition.lose_power(0.0)
        partition.append(1)
        partition.close()
