"""Channels as tables: read, decode, publish and audit with Spark.

Spark itself is loaded only when something here is used.
"""

from dragoman.pipeline.decode import decode
from dragoman.pipeline.install import install

__all__ = ["decode", "install"]
