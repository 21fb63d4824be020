"""A driver to be killed: keeps one channel in one table until all of it is there."""

from __future__ import annotations

import sys

from tests.spark import SETTINGS

from dragoman.pipeline import Flow, Pipeline, session


def main(broker: str, registry: str, target: str, table_format: str, rows: str) -> None:
    flow = Flow("loans", max_rows_per_trigger=int(rows), compact_every=3)
    with Pipeline(
        session("local[2]", SETTINGS),
        [flow],
        target,
        broker=broker,
        registry=registry,
        table_format=table_format,
    ) as pipeline:
        pipeline.run(once=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
