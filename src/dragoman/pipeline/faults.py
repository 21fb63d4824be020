"""What Spark throws, as ours: the cause that a worker met, without the stack of two languages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dragoman.core import errors
from dragoman.core.errors import DragomanError

_OURS = re.compile(r"dragoman(?:\.\w+)+\.(\w+): (.*)")
_PREFIX = "dragoman error: "
_NOTE = re.compile(_PREFIX + r"(\{.*\})")
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


@contextmanager
def across_spark() -> Iterator[None]:
    """Let errors of ours cross from a worker of Spark to the driver whole: code, place and next step.

    Spark hands on the stack as text. So the error gets a note, which is a part of that text.
    """
    try:
        yield
    except DragomanError as error:
        if not any(note.startswith(_PREFIX) for note in getattr(error, "__notes__", ())):
            error.add_note(_PREFIX + json.dumps(_kept(error)))
        raise


def _kept(error: DragomanError) -> dict[str, object]:
    """Of a class from another module, such as an adapter's, the driver gets the nearest one that it knows."""
    kind = next(each for each in type(error).__mro__ if getattr(errors, each.__name__, None) is each)
    where = {name: value if type(value) is int else str(value) for name, value in error.where.items()}
    return {
        "type": kind.__name__,
        "what": error.what,
        "code": error.code,
        "next": error.next,
        "where": where,
    }


def _noted(text: str) -> DragomanError | None:
    found = _NOTE.search(text)
    if found is None:
        return None
    kept = json.loads(found[1])
    return _made(kept["type"], kept["what"], next=kept["next"], code=kept["code"], **kept["where"])


def _made(name: str, what: str, **rest: Any) -> DragomanError:
    """Without the class' own constructor, whose arguments may differ."""
    found = getattr(errors, name, None)
    kind = found if isinstance(found, type) and issubclass(found, DragomanError) else DragomanError
    error = kind.__new__(kind)
    DragomanError.__init__(error, what, **rest)
    return error


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
        return _made(name, what.strip())
    first = next((line for line in text.splitlines() if line.strip()), "It said nothing.")
    return DragomanError(
        f"Spark failed: {first[:500]}", code="pipeline.query", next="The driver's log has the whole story."
    )
