"""Deterministic simulation: what may go wrong, in every order, from a seed."""

from dragoman.testing.simulation.scenario import Failure, Violation, World, first_failure, shrink, try_seed

__all__ = ["Failure", "Violation", "World", "first_failure", "shrink", "try_seed"]
