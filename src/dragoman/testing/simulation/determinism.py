"""Everything that would make two runs of one seed differ, taken from the seed instead.

Clocks, the module ``random``, ``os.urandom`` with which ids are made, and the hashes of keys, which Python
salts anew in each process. All of it is put back after the run.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch
from zlib import crc32

from dragoman.client import lane
from dragoman.core.clock import SystemClock
from dragoman.testing.simulation.loop import SimulatedLoop

_CLOCKS = ("time", "monotonic", "perf_counter")
_REAL = {name: getattr(time, name) for name in _CLOCKS}

_copies: dict[int, list[tuple[str, str, str]]] = {}
"""Names in our modules that are bound to a clock, with how many modules were loaded when they were found."""


@contextmanager
def simulated(seed: int | str, disorder: float = 1.0) -> Iterator[SimulatedLoop]:
    """A loop; until the block ends, all clocks show its time and all chance comes from the seed.

    Nothing is logged meanwhile: what handlers are made to do here would fill the log.
    """
    state = random.getstate()
    chance = random.Random(f"chance {seed}")
    loop = SimulatedLoop(random.Random(f"order {seed}"), disorder)  # type: ignore[abstract]
    disabled = logging.root.manager.disable
    random.seed(f"random {seed}")
    logging.disable(logging.CRITICAL)
    try:
        with ExitStack() as stack:
            for module, name in ((os, "urandom"), (random, "_urandom")):
                stack.enter_context(patch.object(module, name, chance.randbytes))
            stack.enter_context(patch.object(lane, "hash", crc32, create=True))
            stack.enter_context(_virtual_time(loop))
            try:
                yield loop
            finally:
                loop.close()
    finally:
        logging.disable(disabled)
        random.setstate(state)


@contextmanager
def _virtual_time(loop: SimulatedLoop) -> Iterator[None]:
    clocks: dict[str, Callable[[], float]] = {
        "time": loop.wall_time,
        "monotonic": loop.time,
        "perf_counter": loop.time,
    }
    places = [(time, name, name) for name in _CLOCKS]
    places += [(sys.modules[module], name, clock) for module, name, clock in _bound_clocks()]
    now = SystemClock.__dict__["now"]
    for where, name, clock in places:
        setattr(where, name, clocks[clock])
    SystemClock.now = staticmethod(loop.wall_time)
    try:
        yield
    finally:
        for where, name, clock in places:
            setattr(where, name, _REAL[clock])
        SystemClock.now = now


def _bound_clocks() -> list[tuple[str, str, str]]:
    """``from time import perf_counter`` gives a module a name of its own, which is changed there."""
    loaded = len(sys.modules)
    if loaded not in _copies:
        _copies.clear()
        _copies[loaded] = [
            (module, name, clock)
            for module, found in list(sys.modules.items())
            if module.startswith("dragoman.") and found is not None
            for name, value in list(vars(found).items())
            for clock, real in _REAL.items()
            if value is real
        ]
    return _copies[loaded]
