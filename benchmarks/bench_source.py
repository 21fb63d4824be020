"""From the embedded broker to typed rows in Spark, as a batch and as a stream.

python benchmarks/bench_source.py [--rows 5000000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from pathlib import Path
from typing import Any

import pipeline_rows as data
from bench_decode import register

from dragoman.core.channel import Channel
from dragoman.core.loading import BROKERS, load
from dragoman.core.message import Message
from dragoman.pipeline import install

PARTITIONS = 4


def fill(url: str, count: int) -> None:
    rows = data.frames(data.V2, 2)

    async def run() -> None:
        broker = load(BROKERS, "embedded")(url)
        await broker.connect()
        await broker.create(Channel("orders", partitions=PARTITIONS))
        sent = 0
        while sent < count:
            batch = [Message("orders", row, partition=(sent // len(rows)) % PARTITIONS) for row in rows]
            await broker.publish(batch)
            sent += len(rows)
        await broker.close()

    asyncio.run(run())


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=800_000)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    with data.folder() as place:
        run(Path(place), given.rows, given.rounds)


def run(place: Path, count: int, rounds: int) -> None:
    registry, broker = f"sqlite://{place}/registry.db", f"embedded://{place}/broker?fsync=never"
    register(registry)
    fill(broker, count)
    spark = data.session()
    install(spark)
    options = {"broker": broker, "registry": registry, "channel": "orders"}

    def load(**more: str) -> Any:
        return spark.read.format("dragoman").options(**options, **more).load()

    rows = load(mode="raw").count()
    cases = {"typed": load(), "bare": load(includeMeta="false"), "raw": load(mode="raw")}
    rate = data.rates({name: (frame, rows) for name, frame in cases.items()}, rounds)
    raw, typed, bare = rate["raw"], rate["typed"], rate["bare"]
    streamed = stream_rate(spark, options, place, rows // 4)
    data.show(
        [
            ("raw frames", raw, ""),
            ("typed rows with _meta", typed, f"{typed / raw:.0%} of raw frames"),
            ("typed rows without _meta", bare, f"{bare / raw:.0%} of raw frames"),
            ("stream of typed rows, per batch after the first", streamed, f"{rows // 4:,} rows a batch"),
        ]
    )
    spark.stop()


def stream_rate(spark: Any, options: dict[str, str], place: Path, limit: int) -> float:
    stream = spark.readStream.format("dragoman").options(**options, maxRowsPerTrigger=str(limit)).load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(place / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    rates = [
        each["numInputRows"] / (each["durationMs"]["triggerExecution"] / 1000)
        for each in query.recentProgress
        if each["numInputRows"]
    ]
    return statistics.median(rates[1:] or rates)


if __name__ == "__main__":
    main()
