"""Channels as tables: read, decode, keep, publish and audit with Spark.

The names are loaded when they are first used: Spark's workers import this package, and need few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.pipeline.backfill import Backfill
    from dragoman.pipeline.decoding import decode
    from dragoman.pipeline.installing import install
    from dragoman.pipeline.running import Flow, Pipeline
    from dragoman.pipeline.starting import session
    from dragoman.pipeline.views import catalog

_HOMES = {
    "Backfill": "backfill",
    "Flow": "running",
    "Pipeline": "running",
    "catalog": "views",
    "decode": "decoding",
    "install": "installing",
    "session": "starting",
}

__all__ = ["Backfill", "Flow", "Pipeline", "catalog", "decode", "install", "session"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"dragoman.pipeline.{_HOMES[name]}"), name)
