"""What all tests share."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys

import httpx
from hypothesis import HealthCheck, settings

from tests.classes import SPARK
from tests.services.java import QUICK, reading
from tests.services.spark import spark_home

pytest_plugins = ["tests.services.fixtures", "tests.spark"]

# For all that tests start, in all their processes.
os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK)
os.environ.setdefault("SPARK_SUBMIT_OPTS", reading(SPARK))
os.environ.setdefault("SPARK_HOME", spark_home())

# Five seconds are not much for a server on a busy machine.
for part in ("connect", "read", "write", "pool"):
    setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, part, 60.0)

settings.register_profile(
    "dragoman",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("dragoman")


def pytest_unconfigure() -> None:
    """A process that does not end when all tests have would keep the whole run waiting: show what it does."""
    faulthandler.dump_traceback_later(120, exit=True, file=sys.__stderr__)


def pytest_configure() -> None:
    """Whoever is asked to end lets fixtures stop their servers first."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
