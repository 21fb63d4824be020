"""Constraints that a contract's fields carry, checked on whole columns."""

from __future__ import annotations

from dragoman.pipeline.arrow.avro.leaves import Resolver
from dragoman.pipeline.arrow.avro.tree import Field


def constrained(field: Field, resolve: Resolver, path: str) -> Resolver:
    return resolve
