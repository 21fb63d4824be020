"""What Spark throws, as ours: the cause that a worker met, without the stack of two languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from dragoman.core import errors
from dragoman.core.errors import DragomanError

_OURS = re.compile(r"dragoman\.core\.errors\.(\w+): (.*)")
_MISSING_JAVA = ("JAVA_GATEWAY_EXITED", "UnsupportedClassVersionError")


@contextmanager
def spark_faults() -> Iterator[None]:
    """An error of ours that crossed Spark comes out as itself, anything else as ``pipeline.query``."""
    from pyspark.errors import PySparkException

    try:
        yield
    except Exception as error:
        if isinstance(error, PySparkException) or type(error).__module__.startswith("py4j."):
            raise translated(str(error)) from error
        raise


def translated(text: str) -> DragomanError:
    if any(sign in text for sign in _MISSING_JAVA):
        return errors.ConfigurationError(
            "Spark could not be started.",
            code="pipeline.spark",
            next="It needs Java 17 or later: install a JDK and set JAVA_HOME.",
        )
    found = _OURS.findall(text)
    if found:
        name, what = found[-1]
        kind = getattr(errors, name, DragomanError)
        error: DragomanError = kind(what.strip())
        return error
    first = next((line for line in text.splitlines() if line.strip()), "It said nothing.")
    return DragomanError(
        f"Spark failed: {first[:500]}", code="pipeline.query", next="The driver's log has the whole story."
    )
