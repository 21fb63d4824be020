"""A damaged log: every confirmed message is delivered as it was, or reported, and reading always ends."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman import Client, Payload, endpoint
from dragoman.adapters.embedded import EmbeddedBroker
from dragoman.adapters.embedded import reader as reader_module
from dragoman.adapters.embedded.appender import Appender
from dragoman.adapters.embedded.block import HEADER, block_at, draft
from dragoman.adapters.embedded.bounds import Bounds
from dragoman.adapters.embedded.channels import make_folders
from dragoman.adapters.embedded.membership import Membership
from dragoman.adapters.embedded.reader import MessageReader, PartitionReader
from dragoman.adapters.embedded.receiver import EmbeddedReceiver
from dragoman.adapters.embedded.segment import ENTRY, SegmentFile, index_path, log_path, segment_bases
from dragoman.cli import main
from dragoman.client import consumer
from dragoman.core.backoff import Backoff
from dragoman.core.broker import Subscription
from dragoman.core.channel import Channel
from dragoman.core.disk import Disk
from dragoman.core.errors import BrokerError, BrokerUnavailable, ChannelNotFound, DamagedLog
from dragoman.core.message import Message

Damage = list[tuple[int, int]]
FOREIGN = [
    "9" * 20 + ".log",
    f"{1 << 62:020}.log",
    "notes.log",
    "1.log",
    "00000000000000000007.log.old",
    "x" * 20 + ".log",
]


class Log:
    """One partition in a folder, whose reads are counted so that none goes on for ever."""

    def __init__(self, folder: Path, segment_bytes: int = 1500) -> None:
        self.folder = folder / "0"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.bounds = Bounds(folder / "bounds", create=True)
        self.bounds.grow(1)
        self.appender = Appender(self.folder, self.bounds, 0, segment_bytes=segment_bytes, fsync="never")

    def append(self, *payloads: bytes) -> int:
        messages = [Message("c", payload, timestamp=0) for payload in payloads]
        return self.appender.append([draft(messages, now=0)], wait=True)[0]

    def read(self) -> tuple[dict[int, bytes | None], Damage]:
        """What can be read, by offset, and the ranges that are reported."""
        start, end = self.bounds.one(0)
        reader = MessageReader(self.folder, "c", 0, self.bounds)
        found: dict[int, bytes | None] = {}
        damaged: Damage = []
        for _ in range(2 * end + 2):
            if start >= end:
                break
            try:
                messages = reader.read(start, end, 7)
            except DamagedLog as error:
                assert start == error.first < error.until
                damaged.append((error.first, error.until))
                start = error.until
                continue
            assert [message.offset for message in messages] == list(range(start, start + len(messages)))
            assert messages
            found.update({message.offset or 0: message.payload for message in messages})
            start += len(messages)
        assert start >= end
        reader.close()
        return found, damaged

    def close(self) -> None:
        self.appender.close()
        self.bounds.close()


def payload(number: int) -> bytes:
    return b"%06d" % number * (1 + number % 30)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some segments, whose blocks have one message to three."""
    folder = tmp_path_factory.mktemp("written")
    log = Log(folder)
    number = 0
    for size in [1, 2, 3, 1, 1] * 6:
        log.append(*(payload(number + each) for each in range(size)))
        number += size
    log.close()
    assert len(segment_bases(folder / "0")) > 3
    return folder


def places_of(path: Path) -> list[int]:
    """Where the blocks of a segment begin, and where the last one ends."""
    data, places = memoryview(path.read_bytes()), [0]
    while (block := block_at(data, places[-1])) is not None:
        places.append(places[-1] + block.size)
    return places


def check(folder: Path) -> None:
    """Before it is opened again, after that, and after more was published."""
    for reopened in (False, True, True):
        log = Log(folder)
        before = {path.name: path.read_bytes() for path in log.folder.glob("*.log")}
        end = log.bounds.one(0)[1]
        if reopened:
            log.appender.recover()
            assert log.append(b"more") >= end
            for path in log.folder.glob("*.log"):
                assert path.read_bytes().startswith(before.get(path.name, b"")), "something was cut off"
        found, damaged = log.read()
        reported = {offset for first, until in damaged for offset in range(first, until)}
        for offset in range(48):
            assert (offset in found) != (offset in reported)
            assert offset in reported or found[offset] == payload(offset)
        assert all(found[offset] == b"more" for offset in range(48, log.bounds.one(0)[1]))
        log.close()


@st.composite
def damages(draw: st.DrawFn) -> Callable[[list[Path]], None]:
    kind = draw(st.sampled_from(["flip", "cut", "zero", "removed", "doubled", "gone"]))
    which, where = draw(st.integers(0, 100)), draw(st.floats(0, 1, exclude_max=True))
    bit, length = draw(st.integers(0, 7)), draw(st.integers(1, 300))

    def damage(paths: list[Path]) -> None:
        path = paths[which % len(paths)]
        data = bytearray(path.read_bytes())
        if kind == "gone":
            path.unlink()
            return
        if not data:
            return
        at = int(where * len(data))
        if kind == "flip":
            data[at] ^= 1 << bit
        elif kind == "cut":
            del data[at:]
        elif kind == "zero":
            data[at : at + length] = bytes(len(data[at : at + length]))
        else:
            places = list(pairwise(places_of(path)))[:-1]  # what is behind the last one was not confirmed
            if places:
                first, until = places[which % len(places)]
                data[first:until] = b"" if kind == "removed" else 2 * data[first:until]
        path.write_bytes(data)

    return damage


@given(st.lists(damages(), min_size=1, max_size=3))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_damage_is_reported_and_nothing_else_is_lost(
    written: Path, tmp_path_factory: pytest.TempPathFactory, found: list[Callable[[list[Path]], None]]
) -> None:
    folder = tmp_path_factory.mktemp("damaged") / "log"
    shutil.copytree(written, folder)
    for damage in found:
        if paths := sorted((folder / "0").glob("*.log")):
            damage(paths)
    check(folder)
    shutil.rmtree(folder)


@pytest.mark.parametrize("which", [0, -1])
def test_a_segment_cut_at_any_offset_is_reported(written: Path, tmp_path: Path, which: int) -> None:
    size = sorted((written / "0").glob("*.log"))[which].stat().st_size
    for kept in range(0, size, 5):
        folder = tmp_path / f"cut-{kept}"
        shutil.copytree(written, folder)
        os.truncate(sorted((folder / "0").glob("*.log"))[which], kept)
        check(folder)
        shutil.rmtree(folder)


@pytest.mark.parametrize("part", [4, 20, HEADER.size + 9])
@pytest.mark.parametrize("which", [0, -1])
def test_one_flipped_bit_costs_one_block(written: Path, tmp_path: Path, which: int, part: int) -> None:
    folder = tmp_path / "log"
    shutil.copytree(written, folder)
    path = sorted((folder / "0").glob("*.log"))[which]
    data = bytearray(path.read_bytes())
    place = places_of(path)[1]
    hit = block_at(memoryview(bytes(data)), place)
    assert hit is not None
    data[place + part] ^= 1
    path.write_bytes(data)
    log = Log(folder)
    log.appender.recover()
    assert path.read_bytes().startswith(data)
    assert log.read()[1] == [(hit.base, hit.end)]
    log.close()


def test_a_payload_that_looks_like_blocks_is_not_delivered_as_such(tmp_path: Path) -> None:
    """A copy of a segment is published, and the header of its block is damaged."""
    log = Log(tmp_path / "copied", segment_bytes=1 << 20)
    for number in range(20):
        log.append(payload(number))
    copy = log_path(log.folder, 0).read_bytes()
    log.close()
    log = Log(tmp_path / "log", segment_bytes=1 << 20)
    log.append(b"first")
    log.append(copy)
    log.append(b"last")
    path = log_path(log.folder, 0)
    data = bytearray(path.read_bytes())
    data[places_of(path)[1] + 20] ^= 1
    path.write_bytes(data)
    assert log.read() == ({0: b"first", 2: b"last"}, [(1, 2)])
    log.close()


def test_a_torn_write_of_a_copied_segment_is_cut_off(tmp_path: Path) -> None:
    log = Log(tmp_path, segment_bytes=1 << 20)
    for number in range(5):
        log.append(payload(number))
    path = log_path(log.folder, 0)
    whole = path.read_bytes()
    path.write_bytes(whole + draft([Message("c", whole * 2)], now=0).at(5)[:-7])
    log.appender.recover()
    assert path.read_bytes() == whole
    assert log.append(b"next") == 5
    log.close()


def test_a_write_whose_pages_were_lost_is_cut_off_only_if_nothing_sound_follows(tmp_path: Path) -> None:
    """Nothing of it was confirmed: the process died before it could say so."""
    log = Log(tmp_path, segment_bytes=1 << 20)
    log.append(payload(0))
    path = log_path(log.folder, 0)
    whole = path.read_bytes()
    lost = draft([Message("c", payload(1))], now=0).at(1)[:-3] + b"\0\0\0"
    path.write_bytes(whole + lost)
    log.appender.recover()
    assert path.read_bytes() == whole
    path.write_bytes(whole + lost + draft([Message("c", payload(2))], now=0).at(2))
    log.appender.recover()
    assert path.read_bytes().startswith(whole + lost)
    assert log.read() == ({0: payload(0), 2: payload(2)}, [(1, 2)])
    log.close()


def test_many_headers_without_blocks_do_not_hold_up_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(tmp_path, segment_bytes=1 << 22)
    log.append(b"first")
    false = draft([Message("c", b"x" * 50)], now=0).at(7)[: HEADER.size]
    log.append(false * 2000)
    log.append(b"last")
    path = log_path(log.folder, 0)
    data = bytearray(path.read_bytes())
    data[places_of(path)[1] + 20] ^= 1
    path.write_bytes(data)
    tried = []
    chain = SegmentFile._chain
    monkeypatch.setattr(
        SegmentFile,
        "_chain",
        lambda *given: tried.append(given) or chain(*given),  # type: ignore[func-returns-value]
    )
    found, damaged = log.read()
    assert found[0] == b"first"
    assert damaged[0][0] == 1
    assert len(tried) <= 200
    log.close()


def test_bounds_that_are_damaged_cut_nothing_off(written: Path, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    shutil.copytree(written, folder)
    path = sorted((folder / "0").glob("*.log"))[-1]
    torn = path.read_bytes()[:-3]
    path.write_bytes(torn)
    (folder / "bounds").write_bytes(b"\x55" * 32)
    log = Log(folder)
    log.appender.recover()
    assert path.read_bytes() == torn
    found, damaged = log.read()
    assert len(damaged) == 1
    assert found == {offset: payload(offset) for offset in range(damaged[0][0])}
    log.close()


def test_bounds_that_were_cut_short_hide_no_damage(written: Path, tmp_path: Path) -> None:
    """Their records are made again when the channel is opened; the last block is damaged, too."""
    folder = tmp_path / "log"
    shutil.copytree(written, folder)
    path = sorted((folder / "0").glob("*.log"))[-1]
    data = bytearray(path.read_bytes())
    last = places_of(path)[-2]
    data[last + HEADER.size + 9] ^= 1
    path.write_bytes(data)
    os.truncate(folder / "bounds", 0)
    make_folders(folder, 1, sync=False)
    log = Log(folder)
    log.appender.recover()
    assert path.read_bytes() == data
    found, damaged = log.read()
    assert damaged == [(47, 48)]
    assert found == {offset: payload(offset) for offset in range(47)}
    log.close()


def test_a_segment_under_a_wrong_name_is_refused_and_kept(written: Path, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    shutil.copytree(written, folder)
    right = sorted((folder / "0").glob("*.log"))[-1]
    data = right.read_bytes()
    wrong = log_path(folder / "0", 500)
    right.rename(wrong)
    log = Log(folder)
    for _ in range(2):
        with pytest.raises(BrokerUnavailable, match="its name is wrong") as refused:
            log.append(b"more")
        assert right.name in str(refused.value)
        assert wrong.read_bytes() == data
    wrong.rename(right)
    assert log.append(b"more") == 48
    found, damaged = log.read()
    assert found == {offset: payload(offset) for offset in range(48)} | {48: b"more"}
    assert not damaged
    log.close()


async def test_damaged_bounds_do_not_make_a_partition_look_empty(tmp_path: Path) -> None:
    url = f"embedded://{tmp_path}"
    async with connected(url) as broker:
        await broker.create(Channel("c", 1))
        await broker.publish([Message("c", b"%d" % number) for number in range(5)])
    path = tmp_path / "channels" / "1" / "bounds"
    data = bytearray(path.read_bytes())
    data[17] ^= 1
    path.write_bytes(data)
    log = EmbeddedBroker(url).log()
    reads: list[Callable[[], object]] = [
        lambda: log.partitions("c"),
        lambda: log.read("c", 0, 0, 5),
        lambda: log.offset_at("c", 0, 0),
    ]
    for read in reads:
        with pytest.raises(BrokerError) as caught:
            read()
        assert caught.value.code == "broker.damaged-bounds"
        assert "dragoman channel lag c" in str(caught.value)
    log.close()
    async with connected(url) as broker:
        await broker.lag("c")
        log = broker.log()
        assert log.partitions("c") == {0: (0, 5)}
        log.close()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[EmbeddedBroker]:
    broker = EmbeddedBroker(url)
    await broker.connect()
    try:
        yield broker
    finally:
        await broker.close()


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_in_a_partition_are_left_alone(tmp_path: Path, name: str) -> None:
    log = Log(tmp_path)
    log.append(b"one")
    (log.folder / name).write_bytes(b"foreign")
    log.append(b"two")
    log.close()
    log = Log(tmp_path)
    log.appender.recover()
    assert log.read() == ({0: b"one", 1: b"two"}, [])
    assert (log.folder / name).read_bytes() == b"foreign"
    log.close()


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_damaged_index_changes_no_answer(indexed: Path, data: st.DataObject) -> None:
    """Its entries are a hint. One that is damaged, and all behind it, are not used."""
    path = index_path(indexed / "0", 0)
    sound = path.read_bytes()
    hit = bytearray(sound)
    hit[data.draw(st.integers(0, len(hit) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(hit)
    log = Log(indexed)
    try:
        reader = PartitionReader(log.folder, log.bounds)
        assert [reader.offset_at(second * 1000) for second in range(40)] == list(range(40))
        assert [reader.read(offset, offset + 1, 1)[0].base for offset in range(40)] == list(range(40))
        reader.close()
    finally:
        path.write_bytes(sound)
        log.close()


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One segment of 40 large blocks, a second apart, with an entry in the index for each."""
    folder = tmp_path_factory.mktemp("indexed")
    log = Log(folder, segment_bytes=1 << 30)
    for number in range(40):
        message = Message("c", b"x" * (1 << 16), timestamp=number * 1000)
        log.appender.append([draft([message], now=0)], wait=True)
    log.close()
    assert len(index_path(folder / "0", 0).read_bytes()) // ENTRY.size == 39
    return folder


@pytest.mark.parametrize("missing", ["bounds", "0"])
async def test_a_channel_whose_files_are_missing_says_so_and_can_be_given_up(
    tmp_path: Path, missing: str
) -> None:
    broker = EmbeddedBroker(f"embedded://{tmp_path}")
    await broker.connect()
    await broker.create(Channel("c"))
    await broker.publish([Message("c", b"one")])
    await broker.close()
    lost = tmp_path / "channels" / "1" / missing
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    await broker.connect()
    with pytest.raises(ChannelNotFound, match="has no files any more") as refused:
        await broker.publish([Message("c", b"two")])
    assert "dragoman channel delete c" in str(refused.value)
    await broker.delete("c")
    assert await broker.channels() == []
    assert not (tmp_path / "channels" / "1").exists()
    await broker.create(Channel("c"))
    await broker.publish([Message("c", b"three")])
    await broker.close()


def test_a_segment_that_was_rolled_after_the_first_look_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the end of a segment and the list of segments, a writer appends and begins the next one."""
    log = Log(tmp_path, segment_bytes=1 << 20)
    log.append(b"one")
    reader = PartitionReader(log.folder, log.bounds)
    assert [block.base for block in reader.read(0, 1, 1)] == [0]
    real, late = segment_bases, [b"two", b"three"]

    def while_others_write(folder: Path, disk: Disk) -> list[int]:
        if late:
            log.append(late.pop(0))
            log.appender._segment_bytes = 1
            log.append(late.pop(0))
        return real(folder, disk)

    monkeypatch.setattr(reader_module, "segment_bases", while_others_write)
    assert [block.base for block in reader.read(1, 3, 10)] == [1, 2]
    assert segment_bases(log.folder) == [0, 2]
    reader.close()
    log.close()


def test_retention_is_no_damage(tmp_path: Path) -> None:
    log = Log(tmp_path, segment_bytes=200)
    for number in range(20):
        log.append(payload(number))
    reader = MessageReader(log.folder, "c", 0, log.bounds)
    assert len(reader.read(0, 20, 1)) == 1
    log.appender.drop_before(1)
    log.append(b"after")
    # An open segment stays readable after its name is gone.
    assert [message.offset for message in reader.read(1, 21, 100)] == [1, 2, 20]
    fresh = MessageReader(log.folder, "c", 0, log.bounds)
    assert [message.offset for message in fresh.read(3, 21, 100)] == [20]
    for each in (reader, fresh):
        each.close()
    log.close()


def test_a_damaged_segment_is_as_old_as_its_last_write(tmp_path: Path) -> None:
    """Timestamps that cannot be read may be as new as the file."""
    log = Log(tmp_path, segment_bytes=300)
    for number in range(20):
        log.append(payload(number))
    path = log_path(log.folder, 0)
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    log.appender.drop_before(1_000_000)
    assert path.exists()
    log.close()


def test_a_start_by_time_does_not_step_over_damage(tmp_path: Path) -> None:
    for part in (20, HEADER.size + 3):
        log = Log(tmp_path / str(part), segment_bytes=400)
        for number in range(10):
            message = Message("c", payload(number), timestamp=number)
            log.appender.append([draft([message], now=0)], wait=True)
        path = log_path(log.folder, 0)
        place = places_of(path)[1]
        data = bytearray(path.read_bytes())
        data[place + part] ^= 1
        path.write_bytes(data)
        reader = PartitionReader(log.folder, log.bounds)
        assert reader.offset_at(1) == 1
        assert reader.offset_at(9) in (1, 9)
        reader.close()
        log.close()


async def damaged_broker(tmp_path: Path, at: int) -> tuple[str, Path]:
    """Partition 0 has 30 messages, each in a block, and one bit of message ``at`` is flipped. 1 is sound."""
    url = f"embedded://{tmp_path}/data?segment_bytes=100000"
    broker = EmbeddedBroker(url)
    await broker.connect()
    await broker.create(Channel("c", 2))
    for number in range(30):
        await broker.publish([Message("c", b"%d" % number, partition=0)])
    await broker.publish([Message("c", b"sound", partition=1) for _ in range(5)])
    await broker.close()
    path = log_path(tmp_path / "data/channels/1/0", 0)
    data = bytearray(path.read_bytes())
    data[places_of(path)[at] + HEADER.size] ^= 1
    path.write_bytes(data)
    return url, path


async def test_sound_messages_before_the_damage_come_first_then_it_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url, _ = await damaged_broker(tmp_path, 12)
    broker = EmbeddedBroker(url)
    await broker.connect()
    receiver = await broker.subscribe(Subscription(channels=("c",), group="g", start="earliest"))
    found: list[tuple[int | None, int | None]] = []
    while len(found) < 17:
        messages = await receiver.receive(100, 0.1)
        found += [(message.partition, message.offset) for message in messages]
        # As long as one of them is in flight, nothing is raised that would end its handler.
        assert not await receiver.receive(100, 0.0)
        await receiver.acknowledge(messages)
    assert sorted(found) == [*((0, number) for number in range(12)), *((1, number) for number in range(5))]
    with caplog.at_level(logging.ERROR, logger="dragoman.embedded"):
        for _ in range(3):
            with pytest.raises(DamagedLog) as caught:
                await receiver.receive(100, 0.1)
    assert (caught.value.code, caught.value.first, caught.value.until) == ("broker.damaged", 12, 13)
    assert "dragoman channel skip" in caught.value.next
    # What comes to the other partition is delivered.
    await broker.publish([Message("c", b"later", partition=1)])
    assert [message.payload for message in await receiver.receive(100, 1.0)] == [b"later"]
    assert {each.partition: each.behind for each in await broker.lag("c", "g")}[0] == 18
    await broker.close()
    lines = [each for each in caplog.records if getattr(each, "error_code", "") == "broker.damaged"]
    assert len(lines) == 1


async def test_known_damage_does_not_end_the_wait_for_other_partitions(tmp_path: Path) -> None:
    url, _ = await damaged_broker(tmp_path, 0)
    broker = EmbeddedBroker(url)
    await broker.connect()
    receiver = await broker.subscribe(Subscription(channels=("c",), group="g", start="earliest"))
    await receiver.acknowledge(await receiver.receive(100, 0.1))
    with pytest.raises(DamagedLog) as caught:
        await receiver.receive(100, 60.0)
    assert caught.value.where["channel"] == "c" and caught.value.where["partition"] == 0
    assert "dragoman channel skip c --group g" in caught.value.next

    waiting = asyncio.create_task(receiver.receive(100, 60.0))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    await broker.publish([Message("c", b"later", partition=1)])
    assert [message.payload for message in await waiting] == [b"later"]
    await broker.close()


async def test_a_client_with_one_damaged_channel_handles_the_other_and_logs_the_damage_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _ = await damaged_broker(tmp_path, 12)
    publisher = EmbeddedBroker(url)
    await publisher.connect()
    await publisher.create(Channel("good", 1))
    joined: list[Membership] = []
    join = Membership._join

    def counted(self: Membership, connection: sqlite3.Connection, now: float) -> None:
        joined.append(self)
        join(self, connection, now)

    monkeypatch.setattr(Membership, "_join", counted)
    monkeypatch.setattr(consumer, "IDLE_WAIT", 0.01)
    monkeypatch.setattr(consumer, "REST", Backoff(0.001, 0.001))
    rounds = 0
    handled: list[bytes] = []

    async def receive(self: EmbeddedReceiver, limit: int, timeout: float) -> Sequence[Message]:
        nonlocal rounds
        try:
            return await real(self, limit, timeout)
        except DamagedLog:
            rounds += 1
            raise

    real = EmbeddedReceiver.receive
    monkeypatch.setattr(EmbeddedReceiver, "receive", receive)

    @endpoint("c", group="g")
    async def on_bad(payload: Annotated[bytes, Payload]) -> None:
        handled.append(payload)

    @endpoint("good", group="g")
    async def on_good(payload: Annotated[bytes, Payload]) -> None:
        handled.append(payload)

    with caplog.at_level(logging.INFO):
        async with Client(url, "memory://", [on_bad, on_good]), asyncio.timeout(60):
            for number in range(10):
                until = rounds + 2
                while rounds < until:
                    await asyncio.sleep(0)
                await publisher.publish([Message("good", b"good %d" % number)])
                while b"good %d" % number not in handled:
                    await asyncio.sleep(0)
    await publisher.close()

    assert len(handled) == 12 + 5 + 10
    assert len(joined) == 1
    lines = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert sorted(each.name for each in lines) == ["dragoman.client", "dragoman.embedded"]
    assert all(each.exc_info is None and each.error_code == "broker.damaged" for each in lines)  # type: ignore[attr-defined]


async def test_a_group_is_moved_past_the_damage_while_it_receives(tmp_path: Path) -> None:
    url, _ = await damaged_broker(tmp_path, 0)
    broker, other = EmbeddedBroker(url), EmbeddedBroker(url)
    await broker.connect()
    await other.connect()
    receiver = await broker.subscribe(Subscription(channels=("c",), group="g", start="earliest"))
    await receiver.acknowledge(await receiver.receive(100, 0.1))
    with pytest.raises(DamagedLog):
        await receiver.receive(100, 0.1)
    [damage] = await other.damage("c", "g")
    assert (damage.partition, damage.first, damage.until) == (0, 0, 1)
    assert await other.skip_damage("c", "g") == [damage]
    assert await other.skip_damage("c", "g") == []
    found: list[int | None] = []
    async with asyncio.timeout(60):
        while len(found) < 29:
            try:
                messages = await receiver.receive(100, 0.1)
            except DamagedLog:  # it has not noticed yet that it was moved
                continue
            found += [message.offset for message in messages if message.partition == 0]
            await receiver.acknowledge(messages)
    assert found == list(range(1, 30))
    await broker.close()
    await other.close()


async def test_damaged_messages_that_were_set_aside_hold_back_no_others_and_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"embedded://{tmp_path}/data"
    broker = EmbeddedBroker(url)
    await broker.connect()
    await broker.create(Channel("c", 1))
    for number in range(4):
        await broker.publish([Message("c", b"message %d" % number)])
    receiver = await broker.subscribe(Subscription(channels=("c",), group="g", start="earliest"))
    held = await receiver.receive(3, 1.0)
    await receiver.release(held, delay=3600)
    [last] = await receiver.receive(4, 1.0)
    assert last.payload == b"message 3"
    await receiver.acknowledge([last])
    path = log_path(tmp_path / "data/channels/1/0", 0)
    path.write_bytes(path.read_bytes().replace(b"message 1", b"massage 1"))
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 7200)
    # Whoever takes over starts from the wall clock.
    await receiver.close()
    receiver = await broker.subscribe(Subscription(channels=("c",), group="g", start="earliest"))
    found = await receiver.receive(4, 30.0)
    assert [(message.payload, message.attempt) for message in found] == [(b"message 0", 2), (b"message 2", 2)]
    await receiver.acknowledge(found[1:])
    with pytest.raises(DamagedLog):
        await receiver.receive(4, 60.0)
    [damage] = await broker.skip_damage("c", "g")
    assert (damage.first, damage.until) == (1, 2)
    assert [each.behind for each in await broker.lag("c", "g")] == [0]
    assert not await receiver.receive(4, 0.3)
    await broker.close()


def test_the_command_says_what_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def prepare() -> str:
        url, _ = await damaged_broker(tmp_path, 0)
        broker = EmbeddedBroker(url)
        await broker.connect()
        await (await broker.subscribe(Subscription(channels=("c",), group="g", start="earliest"))).close()
        await broker.close()
        return url

    url = asyncio.run(prepare())

    def skip(*more: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["channel", "skip", "c", "--broker", url, *more])
        assert ended.value.code in (0, None), capsys.readouterr().err
        return capsys.readouterr().out

    assert json.loads(skip("--group", "g", "--yes", "--json")) == {
        "channel": "c",
        "group": "g",
        "skipped": [{"partition": 0, "first": 0, "until": 1}],
    }
    assert "no damaged message" in skip("--group", "g")
    with pytest.raises(SystemExit) as ended:
        main(["channel", "skip", "c", "--broker", url, "--group", "other", "--yes"])
    assert ended.value.code == 2
    with pytest.raises(SystemExit) as ended:
        main(["channel", "skip", "c", "--broker", "memory://", "--group", "g", "--yes"])
    assert ended.value.code == 2
    assert "embedded" in capsys.readouterr().err


async def test_the_history_is_read_up_to_the_damage_and_no_further(tmp_path: Path) -> None:
    url, _ = await damaged_broker(tmp_path, 12)
    log = EmbeddedBroker(url).log()
    found = log.read("c", 0, 0, 30)
    assert (found.count, found.next_offset) == (12, 12)
    with pytest.raises(DamagedLog):
        log.read("c", 0, 12, 30)
    assert log.read("c", 0, 13, 30).count == 17
    log.close()


async def test_damage_begins_where_reading_begins(tmp_path: Path) -> None:
    """Whether it was met before or not."""
    url, path = await damaged_broker(tmp_path, 12)
    os.truncate(path, places_of(path)[12])
    log = EmbeddedBroker(url).log()
    for start in (12, 20, 12, 29):
        with pytest.raises(DamagedLog) as caught:
            log.read("c", 0, start, 30)
        assert (caught.value.first, caught.value.until) == (start, 30)
        assert (caught.value.where["offset"], caught.value.where["count"]) == (start, 30 - start)
    log.close()


@pytest.mark.parametrize("messages", [1, 5])
@pytest.mark.parametrize("left", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("file", ["bounds", "index too"])
def test_a_torn_last_block_under_damaged_bounds_is_reported_as_far_as_its_header_tells(
    tmp_path: Path, messages: int, left: float, file: str
) -> None:
    """Two faults. Offsets are not given out twice, even where nothing tells how far the log went."""
    log = Log(tmp_path)
    log.append(*[b"sound"] * 3)
    place = log_path(log.folder, 0).stat().st_size
    log.append(*[b"torn" * 10] * messages)
    size = log_path(log.folder, 0).stat().st_size
    log.close()
    header = left > 0 and int((size - place) * left) >= HEADER.size
    os.truncate(log_path(log.folder, 0), place + int((size - place) * left))
    data = bytearray((tmp_path / "bounds").read_bytes())
    data[16] ^= 1
    (tmp_path / "bounds").write_bytes(data)
    if file == "index too":
        index_path(log.folder, 0).unlink()

    log = Log(tmp_path)
    log.appender.recover()
    torn = 0 if left == 0 else messages if header else 1
    assert log.bounds.one(0) == (0, 3 + torn)
    offset = log.append(b"new")
    assert offset >= 3 + messages
    reader = MessageReader(log.folder, "c", 0, log.bounds)
    end = log.bounds.one(0)[1]
    assert [message.payload for message in reader.read(0, 3 if torn else end, 3)] == [b"sound"] * 3
    if torn:
        with pytest.raises(DamagedLog) as caught:
            reader.read(3, end, 1)
        assert (caught.value.first, caught.value.until) == (3, 3 + torn)
    [message] = reader.read(3 + torn, end, 10)
    assert (message.payload, message.offset) == (b"new", offset)
    reader.close()
    log.close()
