"""A nemesis strikes when it is due and there is something to disturb, and each strike is healed."""

from __future__ import annotations

import itertools
from pathlib import Path

from tests.soak.nemesis import Nemesis, Schedule, Stage


class Noted(Nemesis):
    name = "noted"
    title = "What happens is noted"

    def __init__(self, strikes: int, hold_s: float = 0.0) -> None:
        super().__init__(strikes, hold_s)
        self.happened: list[str] = []
        self.finds_something = True

    def strike(self, stage: Stage) -> bool:
        self.happened.append("strike" if self.finds_something else "nothing")
        return self.finds_something

    def heal(self, stage: Stage) -> None:
        self.happened.append("heal")


STAGE = Stage(Path(), (), None)


def test_strikes_are_spread_evenly_over_the_messages() -> None:
    nemesis = Noted(3)
    schedule = Schedule(nemesis, 400)
    at = []
    for handled in range(401):
        before = schedule.strikes
        schedule.step(STAGE, handled)
        at += [handled] if schedule.strikes > before else []
    assert at == [100, 200, 300]
    assert nemesis.happened == ["strike", "heal"] * 3


def test_there_is_no_second_strike_until_the_first_is_healed() -> None:
    nemesis = Noted(2, hold_s=3600.0)
    schedule = Schedule(nemesis, 30)
    for handled in (10, 20, 30):
        schedule.step(STAGE, handled)
    assert nemesis.happened == ["strike"]
    assert schedule.is_striking
    schedule.heal(STAGE)
    schedule.heal(STAGE)
    assert nemesis.happened == ["strike", "heal"]
    assert not schedule.is_striking


def test_a_strike_that_finds_nothing_is_tried_again() -> None:
    nemesis = Noted(1)
    nemesis.finds_something = False
    schedule = Schedule(nemesis, 2)
    for _ in itertools.repeat(None, 3):
        schedule.step(STAGE, 1)
    assert schedule.strikes == 0
    nemesis.finds_something = True
    schedule.step(STAGE, 1)
    assert nemesis.happened == ["nothing"] * 3 + ["strike"]
    assert schedule.strikes == 1
