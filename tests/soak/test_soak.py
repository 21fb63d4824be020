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
from tests.services.server import Server, ServiceUnavailable
from tests.soak.brokers import SCHEMES, SERVERS
from tests.soak.conductor import Conductor, Plan
from tests.soak.nemesis import CutNetwork, FillDisk, KillMember, KillServer, Nemesis, StepClock, StopMember


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path that servers with users of their own may pass."""
    with tempfile.TemporaryDirectory(prefix="soak-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_is_lost_while_processes_and_the_server_are_killed(scheme: str, folder: Path) -> None:
    try:
        assert load(BROKERS, scheme).capabilities.ordering is Ordering.PARTITION
    except ExtraMissing as error:
        missing(str(error))
    plan = _short(800, KillMember(5), KillServer(2), producers=4, consumers=4)
    for server in _serving(scheme, folder):
        report = Conductor(scheme, folder, plan, server).run()
        assert report.is_good, report
        assert report.strikes["kill-member"] > 0, report
        # Two are meant. The second finds nothing to disturb if all else is done by the time it is due.
        assert server is None or report.strikes["kill-server"] > 0, report


@pytest.mark.parametrize(
    "scheme, nemesis",
    [
        ("embedded", StopMember(1, 4.0)),
        ("embedded", StepClock(5)),
        ("embedded", FillDisk(1, 1.0)),
        ("redis", StopMember(1, 4.0)),
        ("redis", CutNetwork(2, 1.0)),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_nothing_is_lost_reordered_or_owned_twice(scheme: str, nemesis: Nemesis, folder: Path) -> None:
    for server in _serving(scheme, folder):
        try:
            report = Conductor(scheme, folder, _short(600, nemesis), server).run()
        except ServiceUnavailable as unavailable:
            missing(str(unavailable))
        assert report.is_good, report
        assert report.strikes[nemesis.name] > 0, report


def _short(messages: int, *nemeses: Nemesis, producers: int = 2, consumers: int = 2) -> Plan:
    return Plan(
        messages, nemeses, producers, consumers, batch=10, pause_s=0.1, handling_s=0.005, patience_s=300.0
    )


def _serving(scheme: str, folder: Path) -> Iterator[Server | None]:
    if scheme in SERVERS:
        yield from running(SERVERS[scheme], folder)
    else:
        yield None
