"""The same job on a cluster of separate processes, and through Spark Connect."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.scale.cluster import HOME, Processes, wait_until_open
from tests.pipeline.source.channels import V1, Place, loans
from tests.services.ports import free_port

JOB = Path(__file__).with_name("job.py")
QUICKLY = ("--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2",
           "--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    (number,) = made.register("loans-value", V1)
    made.create("loans")
    for partition in (0, 1):
        made.publish(loans(number, V1, range(500), partition=partition))
    return made


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path) as running:
        yield running


def test_a_job_runs_on_a_master_and_two_workers(spark: Any, place: Place, processes: Processes) -> None:
    url = processes.cluster()
    target = place.folder / "tables"
    target.mkdir()
    submit = str(HOME / "bin" / "spark-submit")
    done = subprocess.run(
        [submit, "--master", url, "--executor-memory", "512m", *QUICKLY, str(JOB), place.broker,
         place.registry, str(target)],
        env=processes.environment(), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads((target / "result.json").read_text()) == {"rows": 1000, "kept": 1000, "tasks": 2}


CLIENT = """
import sys
from pyspark.sql import SparkSession
from dragoman.pipeline import install
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
install(spark)
source = spark.read.format("dragoman").options(broker=sys.argv[2], registry=sys.argv[3], channel="loans")
print("count", source.load().where("amount >= 100").count())
"""


def test_a_job_runs_through_spark_connect(spark: Any, place: Place, processes: Processes) -> None:
    port = free_port()
    server = processes.start(
        "connect", str(HOME / "bin" / "spark-submit"), "--master", "local[2]", *QUICKLY,
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--conf", f"spark.connect.grpc.binding.port={port}",
        "--conf", "spark.connect.grpc.binding.address=127.0.0.1", "spark-internal",
    )  # fmt: skip
    wait_until_open(port, server)
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, f"sc://127.0.0.1:{port}", place.broker, place.registry],
        env=processes.environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "count 980" in done.stdout
