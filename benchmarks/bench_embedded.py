"""The embedded broker beside a queue in an SQLite table: both durable, both for many processes, no server.

Produced in batches of 500, consumed and acknowledged in batches of up to 500; then the log read as columns,
memory while all that went on, and what waiting costs. ``--count 5000000`` shows that memory stays flat.
Speeds are per second on the wall, and per second of processor time, which a busy machine does not blur.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sqlite3
import tempfile
import time
from pathlib import Path

from dragoman.adapters.embedded import EmbeddedBroker
from dragoman.core.broker import Subscription
from dragoman.core.channel import Channel
from dragoman.core.message import Message

BATCH = 500
PAYLOAD = b"x" * 164


def memory() -> float:
    """The process's memory now, in MB."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize() / 1e6


class Speed:
    """Messages per second, on the wall and of processor time, from its making to ``stop``."""

    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()
        self.wall = self.processor = 0.0

    def stop(self, count: int) -> Speed:
        self.wall = count / (time.perf_counter() - self._began[0])
        self.processor = count / (time.process_time() - self._began[1])
        return self


class Watermark:
    """Memory early on, and the most there ever was after."""

    def __init__(self, count: int) -> None:
        self._early_at = count // 10
        self.early = self.most = 0.0

    def look(self, done: int) -> None:
        now = memory()
        if done <= self._early_at:
            self.early = now
        self.most = max(self.most, now)


async def produce(broker: EmbeddedBroker, count: int, watermark: Watermark) -> Speed:
    batch = [Message("bench", PAYLOAD, key=b"key-%d" % (number % 256)) for number in range(BATCH)]
    speed = Speed()
    for done in range(0, count, BATCH):
        await broker.publish(batch)
        if done % 50_000 == 0:
            watermark.look(done)
    return speed.stop(count)


async def consume(broker: EmbeddedBroker, count: int, watermark: Watermark) -> Speed:
    receiver = await broker.subscribe(Subscription(("bench",), "bench"))
    speed = Speed()
    done = rounds = 0
    while done < count:
        messages = await receiver.receive(BATCH, 10.0)
        last = {message.partition: message for message in messages}
        await receiver.acknowledge(list(last.values()))
        done += len(messages)
        rounds += 1
        if rounds % 100 == 0:
            watermark.look(done)
    speed.stop(count)
    await receiver.close()
    return speed


def read_log(broker: EmbeddedBroker) -> Speed:
    log = broker.log()
    count = 0
    speed = Speed()
    for partition, (start, end) in log.partitions("bench").items():
        while start < end:
            found = log.read("bench", partition, start, end)
            start, count = found.next_offset, count + found.count
    speed.stop(count)
    log.close()
    return speed


async def idle(broker: EmbeddedBroker, seconds: float) -> float:
    """Share of one core that a receiver uses while nothing comes."""
    receiver = await broker.subscribe(Subscription(("bench",), "idle", start="latest"))
    began = time.process_time()
    await receiver.receive(1, seconds)
    used = time.process_time() - began
    await receiver.close()
    return used / seconds


def table_queue(folder: Path, count: int) -> tuple[Speed, Speed]:
    """The peer: rows inserted, and deleted once they are handled, in transactions of the same size."""
    database = sqlite3.connect(folder / "queue.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("CREATE TABLE queue (id INTEGER PRIMARY KEY, key BLOB, payload BLOB)")
    rows = [(b"key-%d" % (number % 256), PAYLOAD) for number in range(BATCH)]
    speed = Speed()
    for _ in range(0, count, BATCH):
        database.execute("BEGIN IMMEDIATE")
        database.executemany("INSERT INTO queue (key, payload) VALUES (?, ?)", rows)
        database.execute("COMMIT")
    produced = speed.stop(count)
    speed = Speed()
    while found := database.execute("SELECT id, key, payload FROM queue ORDER BY id LIMIT 500").fetchall():
        database.execute("BEGIN IMMEDIATE")
        database.execute("DELETE FROM queue WHERE id <= ?", (found[-1][0],))
        database.execute("COMMIT")
    consumed = speed.stop(count)
    database.close()
    return produced, consumed


def row(title: str, ours: Speed, theirs: Speed | None) -> None:
    cells = [title, f"{ours.wall:,.0f} ({ours.processor:,.0f})"]
    if theirs is None:
        cells += ["-", "-"]
    else:
        cells += [f"{theirs.wall:,.0f} ({theirs.processor:,.0f})", f"{ours.processor / theirs.processor:.1f}"]
    print(f"| {' | '.join(cells)} |")


async def run(count: int, fsync: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        broker = EmbeddedBroker(f"embedded://{folder}/embedded?fsync={fsync}")
        await broker.connect()
        await broker.create(Channel("bench", 4))
        watermark = Watermark(count)
        produced = await produce(broker, count, watermark)
        consumed = await consume(broker, count, watermark)
        read = read_log(broker)
        waiting = await idle(broker, 3.0)
        await broker.close()
        peer_produced, peer_consumed = table_queue(folder, min(count, 300_000))
    print(f"{count:,} messages of {len(PAYLOAD)} bytes with a key, 4 partitions, fsync={fsync}\n")
    print("| | embedded:// | SQLite table | ratio of processor time |")
    print("|---|---:|---:|---:|")
    row("produced, per second (of processor time)", produced, peer_produced)
    row("consumed and acknowledged", consumed, peer_consumed)
    row("log read as columns", read, None)
    print(f"| memory early, then at most, MB | {watermark.early:.0f}, {watermark.most:.0f} | - | - |")
    print(f"| a core's share while waiting | {waiting:.2%} | - | - |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500_000)
    parser.add_argument("--fsync", choices=["always", "batch", "never"], default="batch")
    arguments = parser.parse_args()
    asyncio.run(run(arguments.count, arguments.fsync))


if __name__ == "__main__":
    main()
