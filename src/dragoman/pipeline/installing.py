"""Make Spark know ``format("dragoman")``."""

from __future__ import annotations

from typing import Any

TIMES_OF_DAY = "spark.sql.timeType.enabled"
"""Without it Spark takes the type TIME in batches, but neither in streams nor in conditions."""


def install(spark: Any) -> None:
    """Register the source with a session, and turn on the type TIME. Doing it again changes nothing.

    A session whose Python path has the module ``pyspark_dragoman``, which is installed with Dragoman, finds
    the source without this call.
    """
    from dragoman.pipeline.source import DragomanSource

    spark.dataSource.register(DragomanSource)
    spark.conf.set(TIMES_OF_DAY, "true")
