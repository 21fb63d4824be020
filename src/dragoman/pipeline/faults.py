"""What Spark throws, as ours: the cause that a worker met, without the stack of two languages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from dragoman.core import errors
from dragoman.core.errors import DragomanError

_OURS = re.compile(r"dragoman\.core\.errors\.(\w+): (.*)")
_NOTE = re.compile(r"dragoman error: (\{.*\})")
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


def across_spark(error: DragomanError) -> DragomanError:
    """The error with a note that Spark hands on with the stack, so that it comes out whole, with its code."""
    where = {name: str(value) for name, value in error.where.items()}
    kept = {"type": type(error).__name__, "what": error.what, "code": error.code, "next": error.next}
    error.add_note(f"dragoman error: {json.dumps({**kept, 'where': where})}")
    return error


def _noted(text: str) -> DragomanError | None:
    found = _NOTE.search(text)
    if found is None:
        return None
    kept = json.loads(found[1])
    kind: type[DragomanError] = getattr(errors, kept["type"])
    return kind(kept["what"], next=kept["next"], code=kept["code"], **kept["where"])


def translated(text: str) -> DragomanError:
    if any(sign in text for sign in _MISSING_JAVA):
        return errors.ConfigurationError(
            "Spark could not be started.",
            code="pipeline.spark",
            next="It needs Java 17 or later: install a JDK and set JAVA_HOME.",
        )
    noted = _noted(text)
    if noted is not None:
        return noted
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
