"""Sagas: several local transactions in several services that end all done, or all undone."""

from dragoman.client.saga.orchestrator import Orchestrator, orchestrate
from dragoman.client.saga.steps import Saga, Step

__all__ = ["Orchestrator", "Saga", "Step", "orchestrate"]
