"""Generated names of reply channels and groups: whose they are, how old they are, and which are orphans."""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
from typing import NamedTuple

from dragoman.core.broker import Broker
from dragoman.core.errors import BrokerError

log = logging.getLogger("dragoman.client")

LIFE = 6 * 3600.0
"""Seconds that a requester uses one channel for new requests. Then it takes another."""
GRACE = 24 * 3600.0
"""Seconds after which a channel is an orphan: its requester was killed before it could remove it."""

_REPLIES = r"(?<=\.replies\.)([0-9a-f]{8})[0-9a-f]{16}"
_NAME = re.compile(".+" + _REPLIES)
GENERATED_PART = re.compile(f"({_REPLIES}|" + r"(?<=\.own\.)[0-9a-f]{16})(?=\.|$)")
"""What ``new_address`` or ``own_group`` has generated of a name. Other names may end in numbers too."""


class Address(NamedTuple):
    channel: str
    made_at: float

    @property
    def token(self) -> str:
        return self.channel[-16:]

    def worn_out(self, now: float) -> bool:
        return now - self.made_at > LIFE


def new_address(name: str, now: float) -> Address:
    return Address(f"{name}.replies.{int(now):08x}{secrets.token_hex(8)}", now)


def own_group(name: str) -> str:
    """A group that is forgotten with its last member, for one endpoint of one client."""
    return f"{name}.own.{secrets.token_hex(8)}"


async def remove_orphans(broker: Broker, now: float) -> int:
    """Remove the reply channels of requesters that are long dead; how many there were."""
    removed = 0
    for channel in await broker.channels():
        found = _NAME.fullmatch(channel)
        if found is None or now - int(found[1], 16) < GRACE:
            continue
        with contextlib.suppress(BrokerError):
            await broker.delete(channel)
            removed += 1
    if removed:
        log.info("Removed the reply channels of clients that are gone.", extra={"channels": removed})
    return removed
