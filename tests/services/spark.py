"""Spark's home without its zipped Python.

Its workers would import that before what is installed, and compile it whenever one starts. That takes three
times as long, and Spark gives the reader of a stream ten seconds to come up.
"""

from __future__ import annotations

import contextlib
import sys
from importlib.metadata import distribution, version
from pathlib import Path

HOME = Path(sys.prefix) / f"spark-{version('pyspark')}"


def spark_home() -> str:
    """For ``SPARK_HOME``; made if it is missing."""
    HOME.mkdir(exist_ok=True)
    for part in ("bin", "jars", "sbin"):
        with contextlib.suppress(FileExistsError):
            (HOME / part).symlink_to(Path(str(distribution("pyspark").locate_file("pyspark")), part))
    return str(HOME)
