"""A Spark session fit for channels: ours to start when the user has none."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from dragoman.pipeline.faults import spark_faults

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.globalTempDatabase": "dragoman",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.shuffle.partitions": "4",
    # Rows go to and from the Python workers by it; a tenth to a fifth faster than by TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.log.level": "ERROR",
}


def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Any:
    """The running session, or a new one. Workers use this interpreter, or the one of ``PYSPARK_PYTHON``."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("dragoman")
    if master is not None or "spark.master" not in (settings or {}):
        builder = builder.master(master or "local[*]")
    for name, value in {**DEFAULTS, **(settings or {})}.items():
        builder = builder.config(name, value)
    with spark_faults():
        return builder.getOrCreate()
