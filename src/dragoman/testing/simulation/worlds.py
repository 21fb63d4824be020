"""The worlds that can be simulated, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dragoman.testing.simulation.delivery import DeliveryWorld
from dragoman.testing.simulation.leases import LeasesWorld
from dragoman.testing.simulation.scenario import World

WORLDS: Mapping[str, Callable[[], World[Any]]] = {
    DeliveryWorld.name: DeliveryWorld,
    LeasesWorld.name: LeasesWorld,
}
