"""Channels as tables: read, decode, keep, publish and audit with Spark."""

from dragoman.pipeline.backfill import Backfill
from dragoman.pipeline.catalog import catalog
from dragoman.pipeline.decode import decode
from dragoman.pipeline.install import install
from dragoman.pipeline.running import Flow, Pipeline
from dragoman.pipeline.session import session

__all__ = ["Backfill", "Flow", "Pipeline", "catalog", "decode", "install", "session"]
