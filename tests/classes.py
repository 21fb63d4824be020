"""``python -m tests.classes`` has Java keep the classes of Spark and Kafka, so that all starts are faster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.services.java import QUICK, writing
from tests.services.kafka import ARCHIVE as KAFKA
from tests.services.kafka import Kafka
from tests.services.spark import HOME, spark_home

SPARK = HOME / "classes.jsa"
"""It counts for jars at this place only."""


def main() -> None:
    for archive, run in ((KAFKA, _run_kafka), (SPARK, _run_spark)):
        try:
            _make(archive, run)
        except Exception as error:
            # The tests run without it, too.
            print(f"{archive.name} could not be made: {error}")


def _make(archive: Path, run: Callable[[Path, str], None]) -> None:
    if archive.exists():
        return
    partial = archive.with_suffix(f".{os.getpid()}")
    try:
        with TemporaryDirectory() as folder:
            run(Path(folder), writing(partial))
        if partial.exists():
            partial.rename(archive)
    finally:
        partial.unlink(missing_ok=True)


def _run_kafka(folder: Path, options: str) -> None:
    class Observed(Kafka):
        java_options = options

    server = Observed(folder / "kafka")
    server.start()
    server.stop()


def _run_spark(folder: Path, options: str) -> None:
    """A channel with good and bad messages into a table, as most tests have it."""
    from dragoman.core.message import Message
    from tests.pipeline.source.channels import V1, Place, loans

    place = Place(folder)
    (number,) = place.register("loans-value", V1)
    place.create("loans")
    place.publish([*loans(number, V1, range(1000)), Message("loans", b"corrupt")])
    arguments = (place.broker, place.registry, str(folder / "tables"), "delta", "600")
    # Java ends after Python: it is over when nobody can write any more.
    subprocess.run(
        [sys.executable, "-m", "tests.pipeline.crash.driver", *arguments],
        env={**os.environ, "SPARK_HOME": spark_home(), "SPARK_SUBMIT_OPTS": f"{QUICK} {options}"},
        capture_output=True,
        timeout=300,
    )


if __name__ == "__main__":
    main()
