"""The simulated disk: what a power failure, a failed sync and a crash leave behind."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from random import Random

import pytest

from dragoman.core.disk import make_folders, read_file, sync_names, write_file
from dragoman.testing.simulation.disk import (
    Crash,
    Fault,
    Kill,
    Meanwhile,
    PowerFailure,
    Process,
    Short,
    SimulatedDisk,
)
from dragoman.testing.simulation.scenario import Violation

A, B = Path("/a"), Path("/b")
RW = os.O_RDWR | os.O_CREAT


def disk_with(path: Path, data: bytes) -> tuple[SimulatedDisk, Process]:
    """A disk that has this file and its name."""
    disk = SimulatedDisk()
    process = disk.process()
    write_file(process, path, data, sync=True)
    sync_names(process, Path("/"))
    return disk, process


def after_power_failures(data: bytes, written: bytes, place: int, *, sync: bool) -> set[bytes]:
    """What the file may hold, by all that luck does."""
    found = set()
    for luck in range(300):
        disk, process = disk_with(A, data)
        file = process.open(A, RW)
        process.pwrite(file, written, place)
        if sync:
            process.fsync(file)
        disk.power_failure(Random(luck))
        found.add(read_file(disk.process(), A))
    return found


def test_what_was_synced_survives_a_power_failure() -> None:
    assert after_power_failures(b"old", b"new!", 0, sync=True) == {b"new!"}


def test_what_was_not_synced_is_kept_lost_or_torn() -> None:
    found = after_power_failures(b"....", b"abcd", 0, sync=False)
    assert {b"....", b"abcd", b"ab..", b"..cd", b".bc."} <= found
    assert all(all(byte in b"." + wanted for byte, wanted in zip(each, (b"a", b"b", b"c", b"d"), strict=True))
               for each in found)  # fmt: skip


def test_a_lost_write_behind_the_end_may_leave_zeros() -> None:
    found = after_power_failures(b"ab", b"cd", 2, sync=False)
    assert {b"ab", b"abcd", b"abc", b"ab\0\0", b"ab\0d"} <= found


def test_a_name_is_safe_once_its_folder_is_synced() -> None:
    for synced in (False, True):
        kept = set()
        for luck in range(100):
            disk = SimulatedDisk()
            process = disk.process()
            write_file(process, A, b"data", sync=True)
            if synced:
                sync_names(process, Path("/"))
            disk.power_failure(Random(luck))
            kept.add("a" in disk.root.names)
        assert kept == ({True} if synced else {False, True})


def test_a_replaced_name_is_either_file_and_never_none() -> None:
    found = set()
    for luck in range(100):
        disk, process = disk_with(A, b"old")
        write_file(process, B, b"new", sync=True)
        process.replace(B, A)
        disk.power_failure(Random(luck))
        found.add(read_file(disk.process(), A))
    assert found == {b"old", b"new"}


def test_after_a_failed_sync_the_next_one_succeeds_and_the_bytes_are_gone() -> None:
    found = set()
    for luck in range(100):
        disk, process = disk_with(A, b"old")
        file = process.open(A, RW)
        process.pwrite(file, b"new", 0)
        process.arm(Fault(errno.EIO, luck), 0, "fsync")
        with pytest.raises(OSError, match="Input/output"):
            process.fsync(file)
        process.fsync(file)
        disk.power_failure(Random(luck))
        found.add(read_file(disk.process(), A))
    assert b"old" in found


def test_every_file_that_was_open_is_told_of_a_failed_sync_once() -> None:
    _, process = disk_with(A, b"old")
    one, other = process.open(A, RW), process.open(A, RW)
    process.pwrite(one, b"new", 0)
    process.arm(Fault(errno.EIO), 0, "fsync")
    for file in (one, other):
        with pytest.raises(OSError, match="Input/output"):
            process.fsync(file)
    late = process.open(A, RW)
    for file in (one, other, late):
        process.fsync(file)


def test_after_a_crash_nothing_that_the_process_does_has_an_effect() -> None:
    for luck in range(20):
        disk, process = disk_with(A, b"")
        file = process.open(A, RW)
        process.arm(Kill(luck), 0)
        with pytest.raises(Crash):
            process.pwrite(file, b"abcdef", 0)
        left = read_file(disk.process(), A)
        assert b"abcdef".startswith(left)
        with pytest.raises(Crash):
            process.pwrite(file, b"xyz", 0)
        assert read_file(disk.process(), A) == left


def test_a_dead_process_gives_back_its_locks() -> None:
    disk, process = disk_with(A, b"")
    other = disk.process()
    process.flock(process.open(A, RW), fcntl.LOCK_EX)
    mine = other.open(A, RW)
    with pytest.raises(BlockingIOError):
        other.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with pytest.raises(Violation, match="waits"):
        other.flock(mine, fcntl.LOCK_EX)
    process.die()
    other.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_power_failure_at_a_call_ends_all_processes() -> None:
    disk, process = disk_with(A, b"")
    other = disk.process()
    process.arm(PowerFailure(), 1)
    process.stat(A)
    with pytest.raises(Crash):
        process.stat(A)
    with pytest.raises(Crash):
        other.stat(A)


def test_a_full_disk_takes_what_fits_and_then_refuses() -> None:
    disk, process = disk_with(A, b"")
    disk.room = 3
    file = process.open(A, RW)
    assert process.pwrite(file, b"abcdef", 0) == 3
    with pytest.raises(OSError, match="space"):
        process.pwrite(file, b"def", 3)
    assert process.pwrite(file, b"ABC", 0) == 3, "what is there already needs no room"
    process.ftruncate(file, 0)
    assert disk.room == 3


def test_a_file_is_not_used_after_it_was_closed() -> None:
    _, process = disk_with(A, b"")
    file = process.open(A, RW)
    process.close(file)
    with pytest.raises(Violation, match="closed"):
        process.pread(file, 1, 0)


def test_work_without_an_end_is_noticed() -> None:
    _, process = disk_with(A, b"")
    with pytest.raises(Violation, match="no end"):
        while True:
            process.stat(A)


def test_something_else_runs_between_two_calls() -> None:
    disk, process = disk_with(A, b"old")
    other = disk.process()
    file = process.open(A, RW)
    process.arm(Meanwhile(lambda: write_file(other, A, b"new")), 1)
    assert process.pread(file, 3, 0) == b"old"
    assert process.pread(file, 3, 0) == b"new"


def test_a_short_write_is_followed_by_the_rest() -> None:
    _, process = disk_with(A, b"")
    process.arm(Short(3), 0, "write")
    write_file(process, A, b"abcdefgh")
    assert read_file(process, A) == b"abcdefgh"


def test_the_port_and_the_simulation_do_the_same(tmp_path: Path) -> None:
    """The same calls on the real disk."""
    from dragoman.core.disk import OPERATING_SYSTEM

    def work(disk: object, root: Path) -> list[object]:
        assert isinstance(disk, type(OPERATING_SYSTEM) | Process)
        make_folders(disk, root / "x/y")
        told: list[object] = []
        file = disk.open(root / "x/y/f", RW, 0o644)
        told += [disk.pwrite(file, b"abc", 2), disk.pread(file, 10, 0), disk.fstat(file).st_size]
        disk.ftruncate(file, 4)
        disk.link(root / "x/y/f", root / "x/y/g")
        told += [disk.fstat(file).st_nlink, sorted(disk.listdir(root / "x/y"))]
        disk.replace(root / "x/y/g", root / "x/y/h")
        disk.unlink(root / "x/y/f")
        told += [disk.fstat(file).st_nlink, disk.listdir(root / "x/y"), read_file(disk, root / "x/y/h")]
        for failing in (
            lambda: disk.open(root / "x/none", os.O_RDONLY, 0),
            lambda: disk.link(root / "x/y/h", root / "x/y/h"),
            lambda: disk.open(root / "x/y/h", RW | os.O_EXCL, 0o644),
            lambda: disk.mkdir(root / "x/y"),
            lambda: disk.unlink(root / "x/y/none"),
        ):
            with pytest.raises(OSError) as caught:
                failing()
            told.append(caught.value.errno)
        disk.close(file)
        return told

    simulated = SimulatedDisk().process()
    simulated.mkdir(Path("/root"))
    assert work(OPERATING_SYSTEM, tmp_path) == work(simulated, Path("/root"))
