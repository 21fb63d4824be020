"""Make Spark know ``format("dragoman")``."""

from __future__ import annotations

from typing import Any


def install(spark: Any) -> None:
    """Register the source with a session. Doing it again changes nothing.

    A session whose Python path has the module ``pyspark_dragoman``, which is installed with Dragoman, finds
    it without this call.
    """
    from dragoman.pipeline.source import DragomanSource

    spark.dataSource.register(DragomanSource)
