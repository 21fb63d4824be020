"""A contract: a named sequence of schema versions, and how they may differ."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dragoman.core.schema import Schema


class UpdateOrder(StrEnum):
    """Who has to be deployed first when a contract gets a new version."""

    CONSUMER_FIRST = "consumer first"
    PRODUCER_FIRST = "producer first"
    ANY = "any"
    UNDEFINED = "undefined"


class Compatibility(StrEnum):
    """The seven strategies. The non-transitive ones compare with the latest version only."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def backward(self) -> bool:
        """The new version must read what older ones wrote."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def forward(self) -> bool:
        """Older versions must read what the new one writes."""
        return self.value.startswith(("FORWARD", "FULL"))

    @property
    def transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")

    @property
    def update_order(self) -> UpdateOrder:
        match self.backward, self.forward:
            case True, True:
                return UpdateOrder.ANY
            case True, False:
                return UpdateOrder.CONSUMER_FIRST
            case False, True:
                return UpdateOrder.PRODUCER_FIRST
            case _:
                return UpdateOrder.UNDEFINED


@dataclass(frozen=True, slots=True)
class Contract:
    """A contract as it stands: ``version`` is the latest one."""

    name: str
    channel: str
    compatibility: Compatibility
    version: int

    @property
    def update_order(self) -> UpdateOrder:
        return self.compatibility.update_order


@dataclass(frozen=True, slots=True)
class ContractVersion:
    """One version of a contract: its number and its schema (which has an id)."""

    contract: str
    version: int
    schema: Schema


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """One reason why data of the writer's schema cannot be read with the reader's.

    ``rule`` is a stable name such as ``READER_FIELD_MISSING_DEFAULT_VALUE``; the paths are JSON pointers
    into the two schema texts; ``counterexample`` is a small message, as JSON, that the writer may write
    and the reader cannot read.
    """

    rule: str
    message: str
    reader_path: str = ""
    writer_path: str = ""
    counterexample: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of a compatibility check. ``version`` is the offending older version, if any."""

    compatible: bool
    reasons: tuple[Incompatibility, ...] = ()
    version: int | None = None
