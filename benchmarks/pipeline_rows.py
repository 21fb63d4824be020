"""The rows that the pipeline's benchmarks share: nine fields, two versions, some of them damaged."""

from __future__ import annotations

import io
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from dragoman.schema.framing import frame

DISTINCT = 20_000


def order(quantity: str, *extra: dict[str, Any]) -> dict[str, Any]:
    address = {
        "type": "record",
        "name": "Address",
        "fields": [{"name": "street", "type": "string"}, {"name": "zip", "type": "int"}],
    }
    state = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "SENT"]}
    fields: list[dict[str, Any]] = [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "quantity", "type": quantity},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "state", "type": state},
        {"name": "created", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "address", "type": address},
    ]
    return {"type": "record", "name": "Order", "namespace": "bench", "fields": [*fields, *extra]}


V2 = order("long")
V1 = order("int", {"name": "old", "type": "string"})


def value(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "customer": f"customer-{number % 1000}",
        "amount": number * 1.5,
        "quantity": number % 7,
        "note": None if number % 2 else f"note {number}",
        "state": ("NEW", "PAID", "SENT")[number % 3],
        "created": 1_700_000_000_000_000 + number,
        "tags": ["first", "second"][: number % 3],
        "address": {"street": f"street {number % 99}", "zip": number % 99_999},
        "old": "gone",
    }


def frames(schema: Any, schema_id: int) -> list[bytes]:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    found = []
    for number in range(DISTINCT):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value(number))
        found.append(frame(schema_id, out.getvalue()))
    return found


def damaged(rows: list[bytes], share: float) -> list[bytes]:
    rows, chance = list(rows), random.Random(1)
    for place in chance.sample(range(len(rows)), int(len(rows) * share)):
        row = rows[place]
        rows[place] = chance.choice(
            [row[:-3], row + b"x", b"\1" + row[1:], row[:20], row[:6] + b"\xff\xff" + row[8:]]
        )
    return rows


def write(folder: Path, name: str, rows: list[bytes], count: int) -> str:
    """Some parquet files with one binary column."""
    column = pa.array(rows, pa.binary())
    whole = pa.concat_arrays([column] * max(1, count // len(rows) // 8))
    for number in range(8):
        target = folder / name / f"{number}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"value": whole}), target)
    return str(folder / name)


def session(**settings: str) -> Any:
    """As a user gets one of us."""
    from dragoman.pipeline.starting import session

    given = {name.replace("_", "."): setting for name, setting in settings.items()}
    return session("local[2]", {"spark.driver.memory": "3g", **given})


def rates(cases: dict[str, tuple[Any, int]], rounds: int) -> dict[str, float]:
    """Rows a second of each frame into a sink that takes every column: the median, after a warm-up.

    The cases take turns, so that a busy machine is busy for all of them.
    """
    found: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds + 1):
        for name, (table, rows) in cases.items():
            start = time.perf_counter()
            table.write.format("noop").mode("overwrite").save()
            if turn:
                found[name].append(rows / (time.perf_counter() - start))
    return {name: statistics.median(each) for name, each in found.items()}


def folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="dragoman-bench-")


def show(rows: list[tuple[str, float, str]], out: Callable[[str], Any] = print) -> None:
    out("| case | rows/s | compared |")
    out("| --- | ---: | --- |")
    for name, found, compared in rows:
        out(f"| {name} | {found:,.0f} | {compared} |")
