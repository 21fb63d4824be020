"""What an endpoint's parameters and a controller's attributes may ask for beside the payload.

@controller(group="loan-broker")
class LoanBroker:
    quotes: Annotated[Producer[LoanQuote], To("loan.quotes")]

    @endpoint("loan.requests")
    async def on_request(self, request: LoanRequest, key: Annotated[str, Key], about: Metadata): ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Payload:
    """``Annotated[X, Payload]``: the decoded payload. A record class says so without it.

    ``dict`` takes every version of the contract as plain Python, ``bytes`` the frame as it came.
    """


class Key:
    """``Annotated[X, Key]``: the message's key as ``str``, ``bytes``, ``int`` or a record."""


class Headers:
    """``Annotated[dict[str, bytes], Headers]``: the headers; as a tuple they keep order and repetitions."""


@dataclass(frozen=True, slots=True)
class To:
    """``Annotated[Producer[X], To("channel")]``: a producer of X for this channel."""

    channel: str


class Metadata(NamedTuple):
    """Where a message comes from. A parameter of this type gets it."""

    channel: str
    partition: int | None
    offset: int | None
    timestamp: int | None
    attempt: int
    """Which delivery to this group, from 1, where the broker counts."""
    endpoint: str
    group: str
    contract: str | None
    version: int | None
    schema_id: int | None
