"""A seed gives the same run in every process, so what it finds can be replayed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from hashlib import sha256
from random import Random
from dragoman.testing.simulation.broker import Server
from dragoman.testing.simulation.leases import Journal
from dragoman.testing.simulation.worlds import WORLDS

seen = []
for recorder in (Server, Journal):
    def init(self, *arguments, _original=recorder.__init__):
        seen.append(self)
        _original(self, *arguments)
    recorder.__init__ = init

world = WORLDS[sys.argv[1]]()
for seed in range(60):
    world.run(seed, world.events(Random(f"{world.name} {seed}")))
history = [getattr(each, "history", None) or each._lines for each in seen]
print(len(history), sha256(repr(history).encode()).hexdigest())
"""


@pytest.mark.parametrize("world", ["delivery", "leases"])
def test_a_seed_gives_the_same_history_in_every_process(world: str) -> None:
    def history(hash_seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, world],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout

    assert history("1") == history("2")
