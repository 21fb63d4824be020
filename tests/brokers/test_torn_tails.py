"""A write that was cut short is cut off if nothing of it was confirmed; all else that is lost is reported."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dragoman.adapters.embedded.appender import Appender
from dragoman.adapters.embedded.block import SEAL, draft
from dragoman.adapters.embedded.bounds import Bounds
from dragoman.adapters.embedded.reader import MessageReader, PartitionReader
from dragoman.adapters.embedded.segment import index_path, log_path, segment_bases
from dragoman.core.errors import BrokerError, BrokerUnavailable, DamagedLog
from dragoman.core.message import Message


class Log:
    """One partition in a folder."""

    def __init__(self, folder: Path, segment_bytes: int = 1 << 20) -> None:
        self.folder = folder / "0"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.bounds = Bounds(folder / "bounds", create=True)
        self.bounds.grow(1)
        self.appender = Appender(self.folder, self.bounds, 0, segment_bytes=segment_bytes, fsync="never")

    def append(self, *payloads: bytes, timestamp: int = 0) -> int:
        messages = [Message("c", payload, timestamp=timestamp) for payload in payloads]
        return self.appender.append([draft(messages, now=0)], wait=True)[0]

    def payloads(self) -> list[bytes | None]:
        found, damaged = self.read()
        assert not damaged
        return found

    def read(self) -> tuple[list[bytes | None], list[tuple[int, int]]]:
        """All payloads that can be read, and the ranges that are reported as damaged."""
        start, end = self.bounds.one(0)
        reader = MessageReader(self.folder, "c", 0, self.bounds)
        found: list[bytes | None] = []
        damaged = []
        while start < end:
            try:
                batch = reader.read(start, end, 3)
            except DamagedLog as error:
                assert error.code == "broker.damaged"
                assert start == error.first < error.until <= end
                damaged.append((error.first, error.until))
                start = error.until
                continue
            assert batch and batch[0].offset == start
            found += [message.payload for message in batch]
            start = (batch[-1].offset or 0) + 1
        reader.close()
        return found, damaged

    def close(self) -> None:
        self.appender.close()
        self.bounds.close()


def test_a_log_cut_at_any_byte_keeps_its_whole_blocks_and_reports_what_is_gone(tmp_path: Path) -> None:
    log = Log(tmp_path / "whole")
    ends = []
    for number in range(4):
        log.append(b"a%d" % number, b"b%d" % number)
        ends.append(log_path(log.folder, 0).stat().st_size)
    log.close()
    for size in range(ends[-1] + 1):
        copy = tmp_path / f"cut-{size}"
        shutil.copytree(tmp_path / "whole", copy)
        os.truncate(log_path(copy / "0", 0), size)
        kept = sum(end <= size for end in ends)
        cut = Log(copy)
        cut.appender.recover()
        expected: list[bytes | None] = [b"%c%d" % (sign, number) for number in range(kept) for sign in b"ab"]
        gone = [(2 * kept, 8)] if kept < 4 else []
        assert cut.read() == (expected, gone)
        # Offsets that were handed out are not handed out again, whatever became of their messages.
        assert cut.append(b"new") == 8
        assert cut.read() == ([*expected, b"new"], gone)
        cut.close()
        shutil.rmtree(copy)


def test_a_torn_write_of_another_process_is_cut_off_without_reopening(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append(b"one")
    raw = draft([Message("c", b"two" * 50)], now=0).at(1)
    for size in (1, 20, 48, len(raw) - 1):
        with log_path(log.folder, 0).open("ab") as file:
            file.write(raw[:size])
        before = log.payloads()
        log.append(b"%d" % size)
        assert log.payloads() == [*before, b"%d" % size]
    log.close()


def test_a_whole_block_whose_writer_died_before_telling_is_kept(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append(b"one")
    with log_path(log.folder, 0).open("ab") as file:
        file.write(draft([Message("c", b"two")], now=0).at(1))
    assert log.payloads() == [b"one"]
    log.appender.recover()
    assert log.payloads() == [b"one", b"two"]
    assert log.append(b"three") == 2
    log.close()


def test_two_processes_append_in_turn_across_segments(tmp_path: Path) -> None:
    one, other = Log(tmp_path, segment_bytes=300), Log(tmp_path, segment_bytes=100_000)
    for number in range(60):
        (one if number % 3 else other).append(b"%d" % number)
    assert one.payloads() == [b"%d" % number for number in range(60)]
    assert len(segment_bases(one.folder)) > 3
    one.close()
    other.close()


def test_a_seal_whose_next_segment_was_never_made_is_followed_by_one(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append(b"one")
    log.close()
    with log_path(log.folder, 0).open("ab") as file:
        file.write(SEAL.at(1))
    again = Log(tmp_path)
    again.append(b"two")
    assert again.payloads() == [b"one", b"two"]
    assert segment_bases(again.folder) == [0, 1]
    again.close()


def test_a_segment_that_is_gone_is_reported(tmp_path: Path) -> None:
    log = Log(tmp_path, segment_bytes=1)
    for payload in (b"one", b"two", b"three"):
        log.append(payload)
    log.close()
    for base in (0, 2):
        log_path(log.folder, base).unlink()
        index_path(log.folder, base).unlink()
    again = Log(tmp_path, segment_bytes=1)
    again.append(b"four")
    assert again.read() == ([b"two", b"four"], [(0, 1), (2, 3)])
    again.close()


@pytest.mark.parametrize("index", ["missing", "foreign", "ahead"])
def test_an_index_is_only_a_hint(tmp_path: Path, index: str) -> None:
    log = Log(tmp_path)
    for number in range(300):
        log.append(b"%04d" % number * 500)
    path = index_path(log.folder, 0)
    good = path.read_bytes()
    assert len(good) >= 2 * 24
    log.close()
    if index == "missing":
        path.unlink()
    else:
        path.write_bytes(b"\x11" * 480 if index == "foreign" else good + good[-24:-16] + b"\x7f" * 16)
    again = Log(tmp_path)
    again.append(b"last")
    assert again.payloads() == [*(b"%04d" % number * 500 for number in range(300)), b"last"]
    reader = PartitionReader(again.folder)
    assert [block.base for block in reader.read(250, 252, 100)] == [250, 251]
    reader.close()
    again.close()


def test_broken_bounds_are_made_good_from_the_log(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append(b"one", b"two")
    log.close()
    (tmp_path / "bounds").write_bytes(b"\x55" * 32)
    again = Log(tmp_path)
    assert again.bounds.one(0) == (0, 0)
    again.appender.recover()
    assert again.bounds.one(0) == (0, 2)
    assert again.payloads() == [b"one", b"two"]
    again.close()


def test_damage_in_the_middle_is_told_not_skipped(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append(b"one" * 10)
    log.append(b"two" * 10)
    with log_path(log.folder, 0).open("r+b") as file:
        file.seek(70)
        file.write(b"\xff\xfe")
    with pytest.raises(BrokerError) as caught:
        MessageReader(log.folder, "c", 0).read(0, 2, 10)
    assert caught.value.code == "broker.damaged"
    assert caught.value.where["offset"] == 0
    assert log.read() == ([b"two" * 10], [(0, 1)])
    log.close()


def test_retention_removes_whole_old_segments_only(tmp_path: Path) -> None:
    log = Log(tmp_path, segment_bytes=200)
    for number in range(40):
        log.append(b"%d" % number, timestamp=1000 + number)
    reader = MessageReader(log.folder, "c", 0)
    assert [message.payload for message in reader.read(0, 40, 2)] == [b"0", b"1"]
    log.appender.drop_before(1020)
    start, end = log.bounds.one(0)
    assert 0 < start <= 20 and end == 40
    assert log.payloads() == [b"%d" % number for number in range(start, 40)]
    log.appender.drop_before(9999)
    assert log.bounds.one(0) == (40, 40)
    assert log.append(b"after") == 40
    assert log.payloads() == [b"after"]
    assert [message.offset for message in reader.read(2, 41, 100)][-1] == 40
    reader.close()
    log.close()


def test_an_offset_is_found_by_time_also_when_times_jump(tmp_path: Path) -> None:
    log = Log(tmp_path, segment_bytes=500)
    times = [5, 3, 9, 9, 1, 20, 2, 30, 29, 31]
    for time in times:
        log.append(b"x" * 100, timestamp=time)
    reader = PartitionReader(log.folder)
    for wanted in range(33):
        found = reader.offset_at(wanted)
        assert found == next((at for at, time in enumerate(times) if time >= wanted), None)
    reader.close()
    log.close()


def test_what_is_closed_is_not_used_again(tmp_path: Path) -> None:
    """A thread may come late. The number of the file may be another file's by then."""
    log = Log(tmp_path)
    log.append(b"a")
    log.close()
    with pytest.raises(BrokerUnavailable):
        log.append(b"b")
    assert (log.bounds.partitions, log.bounds.all()) == (0, [])
