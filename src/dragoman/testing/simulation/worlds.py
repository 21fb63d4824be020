"""The worlds that can be simulated, by name.

A world's module is loaded when the world is made: some need what others do without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from dragoman.testing.simulation.scenario import World


def _in(module: str, name: str) -> Callable[[], World[Any]]:
    def make() -> World[Any]:
        world: World[Any] = getattr(import_module(f"dragoman.testing.simulation.{module}"), name)()
        return world

    return make


WORLDS: Mapping[str, Callable[[], World[Any]]] = {
    "delivery": _in("delivery", "DeliveryWorld"),
    "leases": _in("leases", "LeasesWorld"),
    "log": _in("log", "LogWorld"),
    "sink": _in("sink", "SinkWorld"),
}
