"""The seven strategies, over any format's way of comparing two schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dragoman.core.contract import Compatibility, Incompatibility, Verdict
from dragoman.core.format import Format, ParsedSchema, Policy


class Numbered(NamedTuple):
    """An existing version of a contract, parsed."""

    version: int
    format: Format
    schema: ParsedSchema


def usual_policy(format: Format) -> Policy:
    """JSON schemas are compared soundly. For the other formats the usual checkers are sound enough: what they
    overlook, such as a changed logical type, does not stop a reader."""
    return Policy.EXACT if format.schema_type == "JSON" else Policy.STRICT


def check(
    format: Format,
    candidate: ParsedSchema,
    existing: Sequence[Numbered],
    strategy: Compatibility,
    policy: Policy | None = None,
) -> Verdict:
    """Whether the candidate may follow the existing versions, given in rising order.

    The newest versions are compared first, and the first one that does not fit ends the check. Without a
    policy the format's usual one is taken.
    """
    if strategy is Compatibility.NONE or not existing:
        return Verdict(True)
    policy = policy or usual_policy(format)
    compared = reversed(existing) if strategy.transitive else existing[-1:]
    for older in compared:
        reasons = compare(format, candidate, older, strategy, policy)
        if reasons:
            return Verdict(False, reasons, older.version)
    return Verdict(True)


def compare(
    format: Format, candidate: ParsedSchema, older: Numbered, strategy: Compatibility, policy: Policy
) -> tuple[Incompatibility, ...]:
    """The reasons against the candidate beside one older version."""
    if older.format.schema_type != format.schema_type:
        return (
            Incompatibility(
                "SCHEMA_TYPE_CHANGED",
                f"The contract has schemas of type {older.format.schema_type}, not {format.schema_type}.",
            ),
        )
    reasons: list[Incompatibility] = []
    if strategy.backward:
        reasons += format.incompatibilities(candidate, older.schema, policy)
    if strategy.forward:
        reasons += format.incompatibilities(older.schema, candidate, policy)
    return tuple(reasons)
