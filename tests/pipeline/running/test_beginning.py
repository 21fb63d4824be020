"""Streams whose reader comes up late, or not at all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import StreamingQueryException

from dragoman.pipeline import beginning
from dragoman.pipeline.beginning import begun

LATE = StreamingQueryException("[STREAM_FAILED] Query terminated: Python worker failed to connect back.")
BROKEN = StreamingQueryException("[STREAM_FAILED] Query terminated: No such channel.")


class Query:
    """Its states, one at each look: a status, an error that it failed with, or None when it is over."""

    def __init__(self, *states: str | Exception | None) -> None:
        self._states = iter(states)
        self.status: dict[str, str] = {}

    def awaitTermination(self, timeout: float) -> bool:
        state = next(self._states)
        if isinstance(state, Exception):
            raise state
        self.status = {"message": state or "Stopped"}
        return state is None


STARTING = ("Initializing StreamExecution", "Initializing sources")
FAILING = (*STARTING, "Terminated with exception: see below")


@pytest.mark.parametrize("state", ["Getting offsets from loans", "Waiting for data to arrive", None])
def test_a_query_is_given_once_its_reader_is_there(state: str | None) -> None:
    query = Query(*STARTING, state)
    assert begun(lambda: query) is query
    assert query.status["message"] == state or state is None


def test_a_query_whose_reader_was_late_is_started_again() -> None:
    late, good = Query(*FAILING, LATE), Query(*STARTING, "Getting offsets from loans")
    queries: Iterator[Query] = iter([late, Query(LATE), good])
    assert begun(lambda: next(queries)) is good


def test_a_reader_that_never_comes_is_told_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "PATIENCE", -1.0)
    with pytest.raises(StreamingQueryException, match="connect back"):
        begun(lambda: Query(*FAILING, LATE))


def test_a_query_that_fails_otherwise_is_not_started_again() -> None:
    queries = iter([Query(*FAILING, BROKEN)])
    with pytest.raises(StreamingQueryException, match="No such channel"):
        begun(lambda: next(queries))
