"""The runs that there are, by name, and how one is made on a broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.services.server import Server
from tests.soak.conductor import Conductor, Plan, Report
from tests.soak.nemesis import (
    CutNetwork,
    FillDisk,
    KillMember,
    KillServer,
    Nemesis,
    RollingRestart,
    SlowNetwork,
    StepClock,
    StopMember,
    StopServer,
)

SOAK = "soak"
"""Members and the server are killed in one run."""
NONE = "none"
HOLD_S = 8.0
"""Longer than all leases that the runs use."""

NEMESES: Mapping[str, Callable[[], Nemesis]] = {
    "kill-member": lambda: KillMember(6),
    "stop-member": lambda: StopMember(2, HOLD_S),
    "kill-server": lambda: KillServer(2),
    "stop-server": lambda: StopServer(2, HOLD_S),
    "cut-network": lambda: CutNetwork(2, HOLD_S),
    "slow-network": lambda: SlowNetwork(2, HOLD_S),
    "step-clock": lambda: StepClock(10),
    "fill-disk": lambda: FillDisk(3, 4.0),
    "rolling-restart": lambda: RollingRestart(6),
}
RUNS: Sequence[str] = (NONE, *NEMESES)


def plan_of(run: str, messages: int) -> Plan:
    if run == SOAK:
        nemeses = KillMember(max(5, messages // 1000)), KillServer(2)
        return Plan(messages, nemeses, producers=4, consumers=4, batch=100)
    nemeses = () if run == NONE else (NEMESES[run](),)
    # Handlers are at work a quarter of the time, so that most strikes find something in flight.
    concurrency, handling_s = (4, 0.04) if run == RollingRestart.name else (1, 0.01)
    return Plan(
        messages,
        nemeses,
        batch=50,
        pause_s=0.25,
        concurrency=concurrency,
        handling_s=handling_s,
        patience_s=180.0,
    )


def suits(run: str, scheme: str) -> bool:
    """Whether the broker has what this run disturbs."""
    return run not in NEMESES or NEMESES[run]().suits(scheme)


def is_good(run: str, scheme: str, report: Report) -> bool:
    """Whether the run kept every promise, and was disturbed as it should be."""
    nemesis = NEMESES[run]() if run in NEMESES else None
    if not report.is_good:
        return False
    if nemesis is None:
        return run != NONE or not (report.verdict.repeated or report.verdict.overlapping)
    if not report.strikes[run]:
        return False
    if isinstance(nemesis, RollingRestart) and scheme in ("embedded", "kafka"):
        return not (report.verdict.repeated or report.verdict.overlapping)
    return True


def conduct(run: str, scheme: str, folder: Path, messages: int, server: Server | None) -> Report:
    return Conductor(scheme, folder, plan_of(run, messages), server).run()
