"""The one back-off: waits grow from the first to the longest, and are spread."""

from __future__ import annotations

import ast
import asyncio
from dataclasses import replace
from itertools import count, islice, pairwise
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dragoman
from dragoman.adapters.mqtt.channels import Filters
from dragoman.adapters.mqtt.options import options_of
from dragoman.adapters.mqtt.session import Session
from dragoman.core.backoff import RECONNECT, Backoff, contention
from dragoman.core.ending import end
from dragoman.core.errors import BrokerUnavailable, DiscoveryUnavailable
from dragoman.core.message import Message
from dragoman.topology.etcd.watch import Watch

lengths = st.floats(1e-6, 1e6)


@given(lengths, lengths, st.floats(1, 100), st.floats(0, 1), st.integers(-5, 10**9))
def test_a_wait_is_within_its_limits(
    first: float, longest: float, factor: float, jitter: float, failures: int
) -> None:
    wait = Backoff(first, longest, factor, jitter).wait_s(failures)
    assert 0 <= wait <= longest * (1 + jitter) * 1.0000001
    if failures <= 1:
        assert wait >= min(first, longest) * (1 - jitter) * 0.9999999


@given(lengths, lengths)
def test_waits_without_jitter_never_shrink_and_reach_the_longest(first: float, longest: float) -> None:
    waits = list(islice(Backoff(first, longest, jitter=0.0).waits_s(), 70))
    assert all(one <= other for one, other in pairwise(waits))
    assert waits[0] == min(first, longest)
    assert waits[-1] == longest


def test_those_who_contend_are_spread_evenly() -> None:
    waits = [contention(1.0, 1.0).wait_s(1) for _ in range(1000)]
    assert min(waits) < 0.2 and max(waits) > 1.8


def test_a_backoff_counts_from_the_first_failure() -> None:
    steady = Backoff(1.0, 100.0, jitter=0.0)
    assert [steady.wait_s(failures) for failures in range(5)] == [1.0, 1.0, 2.0, 4.0, 8.0]
    assert list(islice(steady.waits_s(), 4)) == [1.0, 2.0, 4.0, 8.0]


WAITING = ("sleep", "call_later", "call_at", "after")


def test_waits_are_computed_nowhere_else() -> None:
    """A sleep or a timer whose length is a power, a product or chance is a formula of its own.

    The simulator is left out: how long something takes there is up to chance.
    """
    found = []
    for path in sorted(Path(dragoman.__file__).parent.rglob("*.py")):
        if path.parent.name == "simulation":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in WAITING):
                continue
            for part in (inner for argument in node.args for inner in ast.walk(argument)):
                powers = isinstance(part, ast.BinOp) and isinstance(part.op, ast.Pow | ast.Mult)
                if powers or (isinstance(part, ast.Call) and "random" in ast.unparse(part.func)):
                    found.append(f"{path.name}:{node.lineno}")
    assert found == []


class Noted(Backoff):
    """Notes its waits, without jitter, and lets nobody wait."""

    noted: ClassVar[list[float]]

    def wait_s(self, failures: int) -> float:
        self.noted.append(replace(RECONNECT, jitter=0.0).wait_s(failures))
        return 0.0


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits of those below, in the order in which they wait."""
    monkeypatch.setattr(Noted, "noted", [], raising=False)
    backoff = Noted(RECONNECT.first_s, RECONNECT.longest_s)
    monkeypatch.setattr("dragoman.adapters.mqtt.session.REST", backoff)
    monkeypatch.setattr("dragoman.topology.etcd.watch.RECONNECT", backoff)
    return Noted.noted


GROWING = [0.1, 0.2, 0.4, 0.8]


async def test_waits_for_mqtt_grow_from_the_first_and_begin_again_after_success(
    noted: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(
        options_of("mqtt://nowhere"),
        "client",
        0,
        Filters((), ()),
        None,  # type: ignore[arg-type]
        read=lambda incoming: Message("c", b""),
        wake=lambda: None,
        is_ours=lambda: True,
        offsets=count(),
    )
    outcomes, done = iter([True, False, False, False, True, False, True]), asyncio.Event()

    async def connect() -> None:
        session._gone.clear()
        worked = next(outcomes, None)
        if worked is None:
            done.set()
        elif worked:
            # Lost again as soon as it is there.
            session._gone.set()
        else:
            raise BrokerUnavailable("away")

    monkeypatch.setattr(session, "_connect", connect)
    await session.open()
    async with asyncio.timeout(60):
        await done.wait()
    await session.close()
    assert noted == [*GROWING, 0.1, 0.2, 0.1]


async def test_waits_for_etcd_grow_from_the_first_and_begin_again_after_success(noted: list[float]) -> None:
    class Following:
        def disconnected(self, why: str) -> None: ...

    class Trying(Watch):
        outcomes = iter([True, False, False, False, True, False])

        async def _follow(self) -> None:
            self._is_connected = next(self.outcomes, False)
            raise DiscoveryUnavailable("broken")

    watch = Trying(None, "", Following())  # type: ignore[arg-type]
    running = asyncio.create_task(watch.run())
    async with asyncio.timeout(60):
        while len(noted) < 6:
            await asyncio.sleep(0)
    await end(running)
    assert noted[:6] == [*GROWING, 0.1, 0.2]


@pytest.mark.parametrize("failures", [0, 1, 2, 65, 10**6])
def test_a_long_row_of_failures_overflows_nothing(failures: int) -> None:
    assert Backoff(0.1, 30.0, factor=1e9).wait_s(failures) <= 36.0
    assert Backoff(0.0, 30.0).wait_s(failures) == 0.0
