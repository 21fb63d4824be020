"""Streams whose reader comes up, however busy the machine is."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException

PATIENCE = 300.0
_LATE = "Python worker failed to connect back"
_UNDECIDED = ("Initializing", "Terminated")
"""What the status of a query begins with before its reader is there, and when it will not be."""
_log = logging.getLogger(__name__)


def begun(start: Callable[[], Any]) -> Any:
    """The query, once its reader is there, or what it failed with.

    Spark gives the reader's process ten seconds to come up, and nobody can give it more. One that took longer
    has read nothing: its query is started again. Whoever starts several gets one after the other, as many
    at once would be late.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        query = start()
        try:
            while not query.awaitTermination(0.05) and query.status["message"].startswith(_UNDECIDED):
                pass
            return query
        except PySparkException as error:
            if _LATE not in str(error) or time.monotonic() > deadline:
                raise
            _log.warning("The stream's reader did not come up within Spark's ten seconds. Trying again.")
