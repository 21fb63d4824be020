"""A job as a user would submit it: one channel counted, and kept in a table."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from dragoman.pipeline import Flow, Pipeline, install


def main(broker: str, registry: str, target: str) -> None:
    spark = SparkSession.builder.appName("job").getOrCreate()
    install(spark)
    source = spark.read.format("dragoman").options(broker=broker, registry=registry, channel="loans")
    rows = source.load().where("_error IS NULL")
    executors = {row[0] for row in rows.selectExpr("spark_partition_id()").distinct().collect()}
    flow = Flow("loans")
    with Pipeline(spark, [flow], target, broker=broker, registry=registry) as pipeline:
        pipeline.run(once=True)
        kept = pipeline.table(flow).count()
    Path(target, "result.json").write_text(
        json.dumps({"rows": rows.count(), "kept": kept, "tasks": len(executors)})
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
