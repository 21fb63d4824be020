"""Progress, as totals and as metrics."""

from __future__ import annotations

import contextlib
import json
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from dragoman.core.errors import ConfigurationError
from dragoman.pipeline.events import Progress, Totals, progress_of, read_events
from dragoman.pipeline.metrics import MOST_CONNECTIONS, Metrics, metrics_text

DOING = Progress("pipeline-loans", 4, 100, 99, 1, 12.5, 7)


def event(batch: int, valid: int, quarantined: int = 0) -> str:
    counts = {"read": valid + quarantined, "valid": valid, "quarantined": quarantined}
    return json.dumps({"batch": batch, **counts}) + "\n"


def test_a_batch_that_was_written_down_twice_counts_once(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    assert read_events(log, "p").batch == -1
    log.write_text(event(0, 5, 1) + event(1, 7) + event(1, 7))
    found = read_events(log, "p")
    assert (found.batch, found.read, found.valid, found.quarantined) == (1, 13, 12, 1)


def test_totals_go_on_where_they_were_and_wait_for_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    totals = Totals(log)
    log.write_text(event(0, 5))
    assert progress_of(totals, "p").valid == 5
    half = event(1, 7)[:10]
    with log.open("a") as more:
        more.write(half)
    assert progress_of(totals, "p").valid == 5
    with log.open("a") as more:
        more.write(event(1, 7)[10:] + "torn\n" + event(2, 1))
    assert progress_of(totals, "p").valid == 13


class Query:
    """A running query, of whose last batch Spark shows these offsets."""

    def __init__(self, latest: Any, end: Any) -> None:
        source = {"latestOffset": latest, "endOffset": end}
        self.lastProgress = {"processedRowsPerSecond": 2.0, "sources": [source]}


ENDS = {"loans": {"0": 5, "1": 7}}


@pytest.mark.parametrize(
    ("latest", "end", "behind"),
    [
        ({"loans": {"0": 6, "1": 9}}, ENDS, 3),
        (json.dumps({"loans": {"0": 6, "1": 9}, "more": {"0": 4}}), json.dumps(ENDS), 7),
        (json.dumps(ENDS), json.dumps(ENDS), 0),
        ("null", json.dumps(ENDS), None),
        (json.dumps(ENDS), "null", None),
        (None, ENDS, None),
        ("{}", "{}", None),
    ],
)
def test_the_lag_is_unknown_where_spark_shows_no_offsets(
    tmp_path: Path, latest: Any, end: Any, behind: int | None
) -> None:
    found = progress_of(Totals(tmp_path / "events.jsonl"), "p", Query(latest, end))
    assert (found.behind, found.rows_per_second) == (behind, 2.0)


def test_metrics_are_what_prometheus_reads() -> None:
    text = metrics_text([DOING])
    assert 'dragoman_pipeline_messages_total{pipeline="pipeline-loans",outcome="valid"} 99\n' in text
    assert 'dragoman_pipeline_messages_total{pipeline="pipeline-loans",outcome="quarantined"} 1\n' in text
    assert 'dragoman_pipeline_batches_total{pipeline="pipeline-loans"} 5\n' in text
    assert 'dragoman_pipeline_lag_messages{pipeline="pipeline-loans"} 7\n' in text
    assert text.count("# TYPE") == 4


def test_a_lag_that_nobody_knows_is_left_out() -> None:
    assert "lag_messages{" not in metrics_text([Progress('a"b', 0, 1, 1, 0, 0.0, None)])


def test_metrics_are_served_while_the_pipeline_runs() -> None:
    metrics = Metrics()
    with metrics.served(0, "127.0.0.1") as port:
        metrics.update(DOING)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            assert answer.read().decode() == metrics.text()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/other", timeout=60)
        with pytest.raises(ConfigurationError, match="cannot be served"), metrics.served(port, "127.0.0.1"):
            pass


def test_metrics_are_served_to_this_machine_alone_unless_a_host_is_named() -> None:
    with (
        Metrics().served(0) as port,
        socket.socket() as elsewhere,
        pytest.raises(ConnectionRefusedError),
    ):
        # Linux answers on all of 127.0.0.0/8, so only a server that listens everywhere is here.
        elsewhere.connect(("127.0.0.2", port))
    with Metrics().served(0, "0.0.0.0") as port, socket.socket() as elsewhere:
        elsewhere.connect(("127.0.0.2", port))


def test_connections_that_ask_for_nothing_keep_no_scrape_out_and_are_closed() -> None:
    metrics = Metrics()
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(metrics.served(0))
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            for _ in range(3 * MOST_CONNECTIONS)
        ]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            assert answer.status == 200
        assert all(is_closed(each) for each in silent[: 2 * MOST_CONNECTIONS])


@pytest.mark.parametrize("part", [b"", b"GET /metrics HTTP/1.1\r\n"])
def test_a_head_that_does_not_come_in_time_is_given_up(part: bytes) -> None:
    """However often a byte of it comes."""
    with (
        Metrics().served(0, head_s=0.1) as port,
        socket.create_connection(("127.0.0.1", port), timeout=0.02) as slow,
    ):
        slow.sendall(part)
        for _ in range(3000):
            with contextlib.suppress(TimeoutError):
                try:
                    slow.sendall(b"x")
                    if slow.recv(100) == b"":
                        return
                except ConnectionError:
                    return
    pytest.fail("the server still waits for the head")


def is_closed(connection: socket.socket) -> bool:
    with contextlib.suppress(ConnectionResetError):
        return connection.recv(100) == b""
    return True
