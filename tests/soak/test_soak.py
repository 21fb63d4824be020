"""The soak in short: some hundred messages, every broker, processes and server killed meanwhile."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.core.broker import Ordering
from dragoman.core.errors import ExtraMissing
from dragoman.core.loading import BROKERS, load
from tests.services.fixtures import missing, running
from tests.services.server import Server
from tests.soak.brokers import SCHEMES, SERVERS, embedded
from tests.soak.conductor import Conductor, Journal, Plan, unordered

SHORT = Plan(messages=800, batch=10, pause=0.1, kill_every=1.0, most_kills=5, patience=300.0)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path that servers with users of their own may pass."""
    with tempfile.TemporaryDirectory(prefix="soak-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_is_lost_while_processes_and_the_server_are_killed(scheme: str, folder: Path) -> None:
    try:
        ordered = load(BROKERS, scheme).capabilities.ordering is Ordering.PARTITION
    except ExtraMissing as error:
        missing(str(error))
    for server in _serving(scheme, folder):
        url = embedded(folder) if server is None else server.url
        report = Conductor(folder, url, SHORT, server).run()
        assert report.lost == 0, report
        assert report.kills > 0, report
        # Two are meant. The second finds nothing to disturb if all else is done by the time it is due.
        assert server is None or report.restarts > 0, report
        assert not (ordered and report.unordered), report


def _serving(scheme: str, folder: Path) -> Iterator[Server | None]:
    if scheme in SERVERS:
        yield from running(SERVERS[scheme], folder)
    else:
        yield None


def test_the_soak_sees_what_is_out_of_order(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("ready\n1 0 0\n5 0 16\n6 0 8\n7 0 16\n")
    other.write_text("ready\n2 0 1\n3 1 8\n4 1 0\n8 0 2")
    journals = [Journal(one), Journal(other)]
    assert [journal.read() for journal in journals] == [
        [(0, 0), (0, 16), (0, 8), (0, 16)],
        [(0, 1), (1, 8), (1, 0)],
    ]
    # 8 after 16 from the first producer, 0 after 8 from the second; a repetition is no disorder.
    assert unordered(journals) == 2
