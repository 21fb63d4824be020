"""Deterministic simulation: what may go wrong, in every order, from a seed."""

from dragoman.testing.simulation.determinism import simulated
from dragoman.testing.simulation.loop import Process, SimulatedLoop
from dragoman.testing.simulation.scenario import Failure, Violation, World, first_failure, shrink, try_seed

__all__ = [
    "Failure",
    "Process",
    "SimulatedLoop",
    "Violation",
    "World",
    "first_failure",
    "shrink",
    "simulated",
    "try_seed",
]
