"""Strict decoding in Spark beside fastavro, an identity and, given its jar, Spark's own from_avro.

python benchmarks/bench_decode.py [--rows 5000000] [--rounds 3] [--spark-avro spark-avro_2.13-4.3.0.jar]
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pipeline_rows as data
import pyarrow as pa

from dragoman.core.schema import Schema
from dragoman.pipeline import decode
from dragoman.pipeline.types import arrow_schema
from dragoman.registry import connect

CONTRACT = "orders-value"


def register(url: str) -> None:
    async def run() -> None:
        registry = connect(url)
        for schema in (data.V1, data.V2):
            await registry.register(CONTRACT, Schema("AVRO", json.dumps(schema)))
        await registry.close()

    asyncio.run(run())


def identity(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def by_fastavro(schema: Any) -> Any:
    text = json.dumps(data.V2)

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        parsed = fastavro.parse_schema(json.loads(text))
        for batch in batches:
            rows = [
                fastavro.schemaless_reader(io.BytesIO(row[5:]), parsed) for row in batch.column(0).to_pylist()
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    return run


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=800_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--spark-avro", default="")
    given = options.parse_args()
    with data.folder() as place:
        run(Path(place), given.rows, given.rounds, given.spark_avro)


def run(place: Path, count: int, rounds: int, jar: str) -> None:
    registry = f"sqlite://{place}/registry.db"
    register(registry)
    first, second = data.frames(data.V1, 1), data.frames(data.V2, 2)
    mixed = [row for pair in zip(first, second, strict=True) for row in pair]
    paths = {
        "one": data.write(place, "one", second, count),
        "mixed": data.write(place, "mixed", mixed, count),
        "corrupt": data.write(place, "corrupt", data.damaged(second, 0.001), count),
        "few": data.write(place, "few", second, max(count // 4, 8 * len(second))),
    }
    spark = data.session(**({"spark_jars": jar} if jar else {}))
    read = {name: spark.read.parquet(path) for name, path in paths.items()}
    rows = {name: frame.count() for name, frame in read.items()}

    def ours(name: str) -> Any:
        return decode(read[name], "value", CONTRACT, registry=registry)

    columns = decode(read["few"], "value", CONTRACT, registry=registry, mode="fail").schema
    cases = {name: (ours(name), rows[name]) for name in ("one", "mixed", "corrupt")}
    cases["same"] = read["one"].mapInArrow(identity, "value binary"), rows["one"]
    cases["peer"] = read["few"].mapInArrow(by_fastavro(arrow_schema(columns)), columns), rows["few"]
    if jar:
        plain = f"from_avro(substring(value, 6), '{json.dumps(data.V2)}') AS row"
        cases["strict"] = decode(read["one"], "value", CONTRACT, registry=registry, mode="fail"), rows["one"]
        cases["jvm"] = read["one"].selectExpr(plain).select("row.*"), rows["one"]
    rate = data.rates(cases, rounds)
    strict = rate["one"]
    table = [
        ("identity mapInArrow", rate["same"], ""),
        ("strict decode", strict, f"{strict / rate['same']:.0%} of the identity"),
        (
            "mapInArrow with fastavro",
            rate["peer"],
            f"strict decode is {strict / rate['peer']:.1f} times as fast",
        ),
        ("two versions mixed", rate["mixed"], f"{rate['mixed'] / strict:.0%} of one"),
        ("0.1% corrupt", rate["corrupt"], f"{rate['corrupt'] / strict:.0%} of none"),
    ]
    if jar:
        share = rate["strict"] / rate["jvm"]
        table.append(("strict decode that stops at a bad row", rate["strict"], f"{share:.0%} of from_avro"))
        table.append(("Spark's from_avro, which stops too, one schema, fewer checks", rate["jvm"], ""))
    data.show(table)
    spark.stop()


if __name__ == "__main__":
    main()
