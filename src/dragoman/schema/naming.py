"""How a contract is named after its channel or its record.

The default is the name that Confluent's clients use, so that both meet in the same contract.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal


class Naming(StrEnum):
    CHANNEL = "channel"
    """``<channel>-value`` and ``<channel>-key``."""
    RECORD = "record"
    """The record's full name: one contract for a record on all its channels."""
    CHANNEL_RECORD = "channel-record"
    """``<channel>-<record>``: several contracts on one channel."""

    def for_value(self, channel: str, record: str) -> str:
        return self._name(channel, record, "value")

    def for_key(self, channel: str, record: str) -> str:
        return self._name(channel, record, "key")

    def _name(self, channel: str, record: str, part: str) -> str:
        match self:
            case Naming.CHANNEL:
                return f"{channel}-{part}"
            case Naming.RECORD:
                return record
            case Naming.CHANNEL_RECORD:
                return f"{channel}-{record}"


def part_of(contract: str) -> Literal["key", "value"]:
    """Which part of a channel's messages a contract describes when it is bound to the channel."""
    return "key" if contract.endswith("-key") else "value"


def channel_of(contract: str) -> str:
    """The channel that a contract's name implies, the contract's own name if it implies none."""
    for suffix in ("-value", "-key"):
        if contract.endswith(suffix) and len(contract) > len(suffix):
            return contract.removesuffix(suffix)
    return contract
