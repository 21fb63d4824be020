"""A channel streamed into Delta and Iceberg tables, the delay of a few rows, and the audit of its history.

python benchmarks/bench_tables.py [--rows 2000000]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import pipeline_rows as data
from bench_decode import register
from bench_source import fill

from dragoman.pipeline import Flow, Pipeline, install
from dragoman.pipeline.arrow import SchemaText
from dragoman.pipeline.auditing import audit_channel
from dragoman.pipeline.options import parse_options

SMALL_BATCHES = 6


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=1_000_000)
    given = options.parse_args()
    with data.folder() as place:
        run(Path(place), given.rows)


def run(place: Path, rows: int) -> None:
    registry, broker = f"sqlite://{place}/registry.db", f"embedded://{place}/broker?fsync=never"
    register(registry)
    fill(broker, rows)
    spark = data.session()
    install(spark)
    lines: list[tuple[str, float, str]] = []
    for table_format in ("delta", "iceberg"):
        rate, delay = streamed(spark, place, broker, registry, table_format, rows)
        lines.append((f"stream into {table_format}, after the first batch", rate, "220,000 wanted"))
        lines.append((f"ten messages into {table_format}, milliseconds", delay, "900 wanted"))
    decode, audit = compared(spark, broker, registry, rows)
    lines.append(("strict decode of the channel", decode, ""))
    lines.append(("audit of the channel", audit, f"{audit / decode:.0%} of the decode, 100% wanted"))
    data.show(lines)
    spark.stop()


def streamed(
    spark: Any, place: Path, broker: str, registry: str, table_format: str, rows: int
) -> tuple[float, float]:
    """Rows a second of large batches, and the median time of small ones."""
    places = {"to": str(place / table_format), "broker": broker, "registry": registry}
    flow = Flow("orders", max_rows_per_trigger=rows // 4)
    with Pipeline(spark, [flow], table_format=table_format, **places) as kept:
        query = kept.start(flow, once=True)
        query.awaitTermination()
        rates = [
            each["numInputRows"] / each["durationMs"]["triggerExecution"] * 1000
            for each in query.recentProgress
            if each["numInputRows"]
        ]
        assert kept.table(flow).count() == sum(each["numInputRows"] for each in query.recentProgress)
    small = Flow("orders", table="small", max_rows_per_trigger=10)
    with Pipeline(spark, [small], table_format=table_format, **places) as kept:
        query = kept.start(small)
        while len([each for each in query.recentProgress if each["numInputRows"]]) < SMALL_BATCHES:
            time.sleep(0.2)
        query.stop()
        times = [
            each["durationMs"]["triggerExecution"] for each in query.recentProgress if each["numInputRows"]
        ]
    return statistics.median(rates[1:] or rates), statistics.median(times[1:])


def compared(spark: Any, broker: str, registry: str, rows: int) -> tuple[float, float]:
    options = {"broker": broker, "registry": registry, "channel": "orders"}
    candidate = SchemaText("AVRO", json.dumps(data.V2))

    def decode() -> None:
        frame = spark.read.format("dragoman").options(**options).load()
        frame.write.format("noop").mode("overwrite").save()

    def audit() -> None:
        audit_channel(spark, parse_options(options), "orders-value", candidate)

    return _rate(decode, rows), _rate(audit, rows)


def _rate(work: Any, rows: int) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return rows / min(times)


if __name__ == "__main__":
    main()
