"""What the tests of topologies share: subscribers that remember, and waiting."""

from __future__ import annotations

import itertools
from typing import Any

from dragoman.topology import AllowList, Multipart, Topology
from dragoman.topology.slot import Slot
from tests.client.waiting import until
from tests.topology.records import Note, Price, Quote

__all__ = ["LOOPBACK", "Inbox", "allowed", "linked", "memory_url", "slot_of", "until"]

LOOPBACK = "multicast://239.255.42.0/24?interface=lo&heartbeat=0.2"

_numbers = itertools.count()


def memory_url() -> str:
    """A broker of this test's own."""
    return f"memory://topology-{next(_numbers)}"


def allowed() -> AllowList:
    return AllowList([Price, Quote, Note])


class Inbox:
    """A subscriber that keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.multiparts: list[Multipart] = []

    async def receive(self, message: Price, multipart: Multipart) -> None:
        self.got.append(message)
        self.multiparts.append(multipart)

    async def has(self, count: int) -> None:
        await until(lambda: len(self.got) >= count)


def slot_of(topology: Topology, index: int = 0) -> Slot:
    return topology.slots[index]


async def linked(topology: Topology, count: int = 1) -> None:
    """Until the receivers of this program are connected to so many publishers."""

    def links() -> int:
        return sum(len(slot.handler.linked) for slot in topology.slots if slot.handler is not None)

    await until(lambda: links() >= count)
