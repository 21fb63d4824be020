"""A disk that fails, is full, or has no number for one more file: what is confirmed, refused and told."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.adapters.embedded import EmbeddedBroker, reserve
from dragoman.adapters.embedded.appender import Appender
from dragoman.adapters.embedded.block import draft
from dragoman.adapters.embedded.bounds import Bounds
from dragoman.adapters.embedded.database import open_database
from dragoman.adapters.embedded.reader import MessageReader
from dragoman.adapters.embedded.segment import log_path, segment_bases
from dragoman.core.broker import Subscription
from dragoman.core.channel import Channel
from dragoman.core.disk import OperatingSystem
from dragoman.core.errors import BrokerUnavailable, ChannelNotFound
from dragoman.core.message import Message, Position


class Disk:
    """Stands before the system's calls: records what is synced, and refuses what it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str]] = []
        self.refuse: dict[str, int] = {}
        """Names of calls, and the error that they end with."""
        self._real: dict[str, Callable[..., object]] = {}
        for name in ("fsync", "pwrite", "ftruncate", "truncate", "posix_fallocate", "open"):
            self._real[name] = getattr(os, name)
            monkeypatch.setattr(os, name, self._call(name))
            if hasattr(OperatingSystem, name):
                monkeypatch.setattr(OperatingSystem, name, staticmethod(self._call(name)))

    def _call(self, name: str) -> Callable[..., object]:
        def call(target: object, *more: object, **named: object) -> object:
            path = os.fspath(
                Path(f"/proc/self/fd/{target}").readlink() if isinstance(target, int) else target
            )  # type: ignore
            if name in self.refuse and "/data" in path:
                raise OSError(self.refuse[name], os.strerror(self.refuse[name]))
            if "/data" in path:
                self.calls.append((name, Path(path).name))
            return self._real[name](target, *more, **named)

        return call

    def synced(self) -> list[str]:
        found = [path for name, path in self.calls if name == "fsync"]
        self.calls.clear()
        return found


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    yield Disk(monkeypatch)


class Log:
    def __init__(self, folder: Path, fsync: str, segment_bytes: int = 1 << 20) -> None:
        self.folder = folder / "data/0"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.bounds = Bounds(folder / "data/bounds", create=True)
        self.bounds.grow(1)
        self.appender = Appender(self.folder, self.bounds, 0, segment_bytes=segment_bytes, fsync=fsync)

    def append(self, *payloads: bytes) -> int:
        drafts = [draft([Message("c", payload, timestamp=0)], now=0) for payload in payloads]
        return self.appender.append(drafts, wait=True)[0]

    def payloads(self) -> list[bytes | None]:
        start, end = self.bounds.one(0)
        reader = MessageReader(self.folder, "c", 0, self.bounds)
        found = reader.read(start, end, 1000) if end > start else []
        reader.close()
        return [message.payload for message in found]

    def close(self) -> None:
        self.appender.close()
        self.bounds.close()


FIRST = f"{0:020}.log"


def test_with_always_each_append_is_on_the_disk_before_it_is_confirmed(tmp_path: Path, disk: Disk) -> None:
    log = Log(tmp_path, "always")
    told = []
    write = log.bounds.write
    log.bounds.write = lambda *given: (told.append(disk.synced()), write(*given))  # type: ignore
    log.append(b"one")
    log.append(b"two")
    assert told[0] == [FIRST, "0"], "the messages, and the name of their new file"
    assert told[1] == [FIRST]
    log.close()


@pytest.mark.parametrize("fsync", ["always", "batch"])
def test_a_segment_is_on_the_disk_before_the_next_one_begins(tmp_path: Path, disk: Disk, fsync: str) -> None:
    log = Log(tmp_path, fsync, segment_bytes=1)
    log.append(b"one")
    disk.calls.clear()
    log.append(b"two")
    order = [call for call in disk.calls if call in [("fsync", FIRST), ("open", f"{1:020}.log")]]
    assert order == [("fsync", FIRST), ("open", f"{1:020}.log")]
    log.close()


def test_a_new_segment_has_its_name_on_the_disk_once_it_is_synced(tmp_path: Path, disk: Disk) -> None:
    log = Log(tmp_path, "batch", segment_bytes=1)
    log.append(b"one")
    assert disk.synced() == ["offsets", "0"], "reserved, and not yet written"
    log.appender.sync()
    assert disk.synced() == [FIRST, "0"]
    log.append(b"two")
    disk.calls.clear()
    log.appender.sync()
    assert disk.synced() == [f"{1:020}.log", "0"]
    log.appender.sync()
    assert disk.synced() == [], "there is nothing new"
    log.close()


def test_with_never_only_the_reserved_offsets_are_synced(tmp_path: Path, disk: Disk) -> None:
    log = Log(tmp_path, "never", segment_bytes=1)
    log.append(b"one", b"two")
    log.appender.sync()
    log.appender.drop_before(1)
    assert disk.synced() == ["offsets", "0"]
    log.close()


def test_retention_has_the_new_start_on_the_disk_before_segments_go(tmp_path: Path, disk: Disk) -> None:
    log = Log(tmp_path, "batch", segment_bytes=1)
    log.append(b"one", b"two", b"three")
    log.appender.sync()
    disk.calls.clear()
    log.appender.drop_before(1)
    assert "bounds" in disk.synced()
    log.close()


async def test_a_new_channel_is_on_the_disk_with_the_names_of_its_folders(tmp_path: Path, disk: Disk) -> None:
    broker = EmbeddedBroker(f"embedded://{tmp_path}/data")
    await broker.connect()
    disk.calls.clear()
    await broker.create(Channel("c", 2))
    assert disk.synced()[:4] == ["bounds", "1", "channels", "data"]
    await broker.close()


async def test_messages_of_the_last_second_are_synced_when_the_broker_closes(
    tmp_path: Path, disk: Disk
) -> None:
    broker = EmbeddedBroker(f"embedded://{tmp_path}/data")
    await broker.connect()
    await broker.create(Channel("c", 1))
    await broker.publish([Message("c", b"x")])
    disk.calls.clear()
    await broker.close()
    assert FIRST in disk.synced()


@pytest.mark.parametrize("fsync", ["always", "batch"])
def test_after_a_failed_sync_nothing_is_accepted_until_the_log_is_opened_again(
    tmp_path: Path, disk: Disk, fsync: str
) -> None:
    log = Log(tmp_path, fsync)
    log.append(b"one")
    disk.refuse["fsync"] = errno.EIO
    if fsync == "batch":
        log.append(b"two")
        with pytest.raises(BrokerUnavailable) as caught:
            log.appender.sync()
    else:
        with pytest.raises(BrokerUnavailable) as caught:
            log.append(b"refused")
    assert (caught.value.code, caught.value.where["folder"]) == ("broker.sync-failed", log.folder)
    disk.refuse.clear()
    for _ in range(2):
        with pytest.raises(BrokerUnavailable) as caught:
            log.append(b"refused too")
        assert caught.value.code == "broker.sync-failed"
    log.close()
    again = Log(tmp_path, fsync)
    again.append(b"last")
    assert again.payloads() == [b"one", *([b"two"] if fsync == "batch" else []), b"last"]
    again.close()


async def test_a_failed_sync_of_one_partition_leaves_the_others_alone(tmp_path: Path, disk: Disk) -> None:
    broker = EmbeddedBroker(f"embedded://{tmp_path}/data?fsync=always")
    await broker.connect()
    await broker.create(Channel("c", 2))
    disk.refuse["fsync"] = errno.EIO
    with pytest.raises(BrokerUnavailable):
        await broker.publish([Message("c", b"x", partition=0)])
    disk.refuse.clear()
    await broker.publish([Message("c", b"y", partition=1)])
    with pytest.raises(BrokerUnavailable, match="synced"):
        await broker.publish([Message("c", b"z", partition=0)])
    await broker.close()
    await broker.connect()
    await broker.publish([Message("c", b"z", partition=0)])
    await broker.close()


@pytest.mark.parametrize("call", ["pwrite", "open", "fsync"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE, errno.EIO])
def test_nothing_of_a_refused_append_is_in_the_log(tmp_path: Path, disk: Disk, call: str, error: int) -> None:
    """Three blocks, each of which begins a segment: the call fails at the first, second, third, ... time."""
    log = Log(tmp_path, "always", segment_bytes=1)
    log.append(b"one")
    confirmed = [b"one"]
    real = getattr(OperatingSystem, call)
    for number in range(1, 9):
        left = [number]

        def sometimes(*given: object, left: list[int] = left, **named: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                raise OSError(error, os.strerror(error))
            return real(*given, **named)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(OperatingSystem, call, staticmethod(sometimes))
            payloads = [b"%d-%d" % (number, each) for each in range(3)]
            try:
                log.append(*payloads)
                confirmed += payloads
            except BrokerUnavailable as refused:
                assert refused.next
                assert refused.where["folder"] == log.folder
        assert log.payloads() == confirmed
        if call == "fsync" and left[0] <= 0:
            log.close()
            log = Log(tmp_path, "always", segment_bytes=1)
        log.append(b"next")
        confirmed.append(b"next")
        assert log.payloads() == confirmed
    log.close()
    again = Log(tmp_path, "always")
    again.appender.recover()
    assert again.payloads() == confirmed
    again.close()


def test_what_was_not_synced_when_an_append_failed_is_synced_later(tmp_path: Path, disk: Disk) -> None:
    log = Log(tmp_path, "batch")
    log.append(b"confirmed")
    disk.refuse["pwrite"] = errno.ENOSPC
    with pytest.raises(BrokerUnavailable):
        log.append(b"refused")
    disk.refuse.clear()
    log.appender.recover()
    disk.calls.clear()
    log.appender.sync()
    assert FIRST in disk.synced()
    log.close()


def test_a_writer_whose_log_cannot_be_cut_back_writes_no_more(tmp_path: Path, disk: Disk) -> None:
    log = Log(tmp_path, "batch")
    log.append(b"one")
    disk.refuse.update(fsync=errno.EIO, truncate=errno.EIO, pwrite=errno.EIO)
    with pytest.raises(BrokerUnavailable):
        log.append(b"refused")
    disk.refuse.clear()
    with pytest.raises(BrokerUnavailable):
        log.append(b"refused too")
    assert log.payloads() == [b"one"]
    log.close()


def test_retention_makes_room_on_a_full_disk(tmp_path: Path, disk: Disk) -> None:
    log = Log(tmp_path, "batch", segment_bytes=1)
    log.append(b"one", b"two", b"three")
    disk.refuse["open"] = errno.ENOSPC

    def only_new(target: object, flags: int, *more: object, **named: object) -> object:
        if flags & os.O_CREAT and not Path(str(target)).exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return disk._real["open"](target, flags, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OperatingSystem, "open", staticmethod(only_new))
        log.appender.drop_before(1)
    disk.refuse.clear()
    assert segment_bases(log.folder) == [2]
    assert log.append(b"four") == 3
    assert log.payloads() == [b"three", b"four"]
    log.close()


async def test_readers_drain_a_full_disk_and_publishers_wait_for_room(tmp_path: Path, disk: Disk) -> None:
    url = f"embedded://{tmp_path}/data"
    broker = EmbeddedBroker(url)
    await broker.connect()
    await broker.create(Channel("c", 1))
    await broker.publish([Message("c", b"%d" % number) for number in range(10)])
    root = tmp_path / "data"
    assert (root / "reserve").stat().st_size == reserve.SIZE
    log = log_path(root / "channels/1/0", 0)
    before = log.read_bytes()
    disk.refuse["pwrite"] = errno.ENOSPC
    with pytest.raises(BrokerUnavailable) as caught:
        await broker.publish([Message("c", b"refused")])
    assert "room" in caught.value.next
    disk.refuse["posix_fallocate"] = disk.refuse.pop("pwrite")
    assert (root / "reserve").stat().st_size == 0, "its room is for groups now"
    for delay in (0.0, 60.0):
        with pytest.raises(BrokerUnavailable):
            await broker.publish([Message("c", b"refused")], delay=delay)
    other = EmbeddedBroker(url)
    await other.connect()
    with pytest.raises(BrokerUnavailable):
        await other.publish([Message("c", b"refused")])
    receiver = await other.subscribe(Subscription(channels=("c",), group="g", start="earliest"))
    found = await receiver.receive(100, 1.0)
    await receiver.acknowledge(found)
    assert [message.payload for message in found] == [b"%d" % number for number in range(10)]
    assert log.read_bytes() == before
    disk.refuse.clear()
    await broker.publish([Message("c", b"accepted")])
    assert (root / "reserve").stat().st_size == reserve.SIZE
    assert [message.payload for message in await receiver.receive(100, 1.0)] == [b"accepted"]
    await broker.close()
    await other.close()


async def test_a_full_database_is_told_once_and_then_has_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite is given no more pages; they come back with the reserve."""
    broker = EmbeddedBroker(f"embedded://{tmp_path}/data")
    await broker.connect()
    await broker.create(Channel("c", 1))
    await broker.publish([Message("c", b"x")])
    connection = broker._database._connection
    [pages] = connection.execute("PRAGMA page_count").fetchone()
    give_up = broker._reserve.give_up if broker._reserve else None
    assert give_up is not None

    def make_room() -> None:
        give_up()
        connection.execute("PRAGMA max_page_count = 1000000")

    monkeypatch.setattr(broker._reserve, "give_up", make_room)
    connection.execute(f"PRAGMA max_page_count = {pages}")
    group = "g" * 5000  # its rows need new pages
    receiver = await broker.subscribe(Subscription(channels=("c",), group=group, start="earliest"))
    assert (tmp_path / "data/reserve").stat().st_size == 0
    assert len(await receiver.receive(10, 1.0)) == 1
    await broker.close()


def test_a_database_is_opened_on_a_full_disk_with_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "data"
    open_database(root, "batch").close()
    connect = sqlite3.connect
    kept = reserve.Reserve(root)
    kept.take()

    def while_full(*given: object, **named: object) -> object:
        if (root / "reserve").stat().st_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return connect(*given, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(sqlite3, "connect", while_full)
    open_database(root, "batch").close()
    assert not kept.held
    kept.take()
    assert kept.held
    kept.close()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE, errno.EIO, errno.EACCES])
async def test_what_the_system_refuses_has_a_code_a_path_and_a_next_step(
    tmp_path: Path, disk: Disk, error: int
) -> None:
    broker = EmbeddedBroker(f"embedded://{tmp_path}/data")
    await broker.connect()
    await broker.create(Channel("c", 1))
    await broker.publish([Message("c", b"x")])
    receiver = await broker.subscribe(Subscription(channels=("c",), group="g", start="earliest"))
    disk.refuse["open"] = error
    works = (
        lambda: receiver.receive(10, 0.1),
        lambda: broker.subscribe(Subscription(channels=("c",), group="h", start="earliest")),
        lambda: broker.create(Channel("d", 1)),
    )
    for work in works:
        with pytest.raises(BrokerUnavailable) as caught:
            await work()
        assert caught.value.code == "broker.unavailable"
        assert caught.value.next
        assert str(tmp_path) in str(caught.value)
    disk.refuse.clear()
    assert len(await receiver.receive(10, 1.0)) == 1
    await broker.close()


async def test_a_reserve_that_cannot_be_given_up_changes_no_error(tmp_path: Path, disk: Disk) -> None:
    """As on a file system that copies on write: to make a file shorter takes room."""
    broker = EmbeddedBroker(f"embedded://{tmp_path}/data")
    await broker.connect()
    await broker.create(Channel("c", 1))
    await broker.publish([Message("c", b"one")])
    disk.refuse.update(pwrite=errno.ENOSPC, ftruncate=errno.ENOSPC, posix_fallocate=errno.ENOSPC)
    with pytest.raises(BrokerUnavailable, match="No space"):
        await broker.publish([Message("c", b"refused")])
    disk.refuse.clear()
    assert (await broker.publish([Message("c", b"two")]))[0] == Position("c", 0, 1)
    disk.refuse.update(ftruncate=errno.EROFS)
    connection = FullOnce(broker._database._connection)
    broker._database._connection = connection  # type: ignore[assignment]
    with pytest.raises(BrokerUnavailable, match="full"):
        await broker.channels()
    broker._database._connection = connection.real
    disk.refuse.clear()
    await broker.close()


class FullOnce:
    def __init__(self, real: sqlite3.Connection) -> None:
        self.real = real

    def execute(self, *_: object) -> sqlite3.Cursor:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error


@pytest.mark.parametrize("name", ["bounds", "lock", f"{0:020}.log"])
async def test_a_channel_whose_files_cannot_be_removed_is_deleted_or_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    broker = EmbeddedBroker(f"embedded://{tmp_path}/data")
    await broker.connect()
    await broker.create(Channel("c", 2))
    await broker.publish([Message("c", b"x", partition=0)])
    with refused_unlink(monkeypatch, name):
        if name == "bounds":
            with pytest.raises(BrokerUnavailable, match="Input/output error"):
                await broker.delete("c")
            assert await broker.channels() == ["c"]
            await broker.publish([Message("c", b"y", partition=0)])
        else:
            await broker.delete("c")
    if name == "bounds":
        await broker.delete("c")
    assert await broker.channels() == []
    with pytest.raises(ChannelNotFound):
        await broker.publish([Message("c", b"z")])
    await broker.create(Channel("c", 1))
    assert (await broker.publish([Message("c", b"new")]))[0] == Position("c", 0, 0)
    await broker.close()


async def test_a_dead_member_whose_file_cannot_be_removed_is_buried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, broker = (EmbeddedBroker(f"embedded://{tmp_path}/data") for _ in range(2))
    await dead.connect()
    await broker.connect()
    await broker.create(Channel("c", 1))
    receiver = await dead.subscribe(Subscription(("c",), "g", start="earliest"))
    receiver._membership._pulse.stop()
    (tmp_path / "data/members" / receiver._membership.id).touch()
    await broker.publish([Message("c", b"x")])
    with refused_unlink(monkeypatch, receiver._membership.id):
        living = await broker.subscribe(Subscription(("c",), "g", start="earliest"))
        assert [message.payload for message in await living.receive(1, 30.0)] == [b"x"]
    await broker.close()
    await dead.close()


@contextmanager
def refused_unlink(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    real = Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if path.name == name:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        real(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        patch.setattr(OperatingSystem, "unlink", staticmethod(unlink))
        yield
