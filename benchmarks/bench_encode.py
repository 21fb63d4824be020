"""Strict encoding in Spark beside fastavro in the same mapInArrow.

python benchmarks/bench_encode.py [--rows 5000000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pipeline_rows as data
import pyarrow as pa

from dragoman.pipeline.arrow import Decoder, Encoder, SchemaText
from dragoman.schema.framing import header_of

TEXT = SchemaText("AVRO", json.dumps(data.V2))


def ours(batches: Iterator[Any]) -> Iterator[Any]:
    encoder = Encoder(TEXT, 2)
    for batch in batches:
        yield pa.record_batch([encoder.encode(batch.to_struct_array()).frames], names=["value"])


def by_fastavro(batches: Iterator[Any]) -> Iterator[Any]:
    parsed, header = fastavro.parse_schema(json.loads(TEXT.text)), header_of(2)
    for batch in batches:
        frames = []
        for row in batch.to_pylist():
            out = io.BytesIO()
            out.write(header)
            fastavro.schemaless_writer(out, parsed, row)
            frames.append(out.getvalue())
        yield pa.record_batch([pa.array(frames, pa.binary())], names=["value"])


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=800_000)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    with data.folder() as place:
        run(Path(place), given.rows, given.rounds)


def run(place: Path, count: int, rounds: int) -> None:
    import pyarrow.parquet as pq

    frames = pa.array(data.frames(data.V2, 2), pa.binary())
    typed = pa.Table.from_struct_array(Decoder(TEXT, {2: TEXT}.__getitem__).decode(frames).values)
    for name, rows in (("all", count), ("few", count // 4)):
        for number in range(8):
            target = place / name / f"{number}.parquet"
            target.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.concat_tables([typed] * max(1, rows // len(typed) // 8)), target)
    spark = data.session()
    read = {name: spark.read.parquet(str(place / name)) for name in ("all", "few")}
    number = {name: frame.count() for name, frame in read.items()}
    cases = {
        "ours": (read["all"].mapInArrow(ours, "value binary"), number["all"]),
        "peer": (read["few"].mapInArrow(by_fastavro, "value binary"), number["few"]),
    }
    rate = data.rates(cases, rounds)
    times = rate["ours"] / rate["peer"]
    data.show(
        [
            ("strict encode", rate["ours"], ""),
            ("fastavro", rate["peer"], f"strict encode is {times:.1f} times as fast"),
        ]
    )
    spark.stop()


if __name__ == "__main__":
    main()
