"""Who is in a group, and which member owns which partition of one channel. Values only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from dragoman.core.broker import Sharing
from dragoman.core.partitioning import shares_of


@dataclass(slots=True)
class Member:
    joined: int
    """The number of its turn: who came first has the lowest."""
    beat: int
    """Rises as long as the member lives."""
    lease: float
    """After so many seconds without a beat it is out."""
    seat: str
    sharing: str


@dataclass(slots=True)
class Owner:
    member: str
    epoch: int


@dataclass(slots=True)
class Roster:
    durable: bool = True
    members: dict[str, Member] = field(default_factory=dict)
    owners: dict[int, Owner] = field(default_factory=dict)
    epochs: int = 0
    """The last one given out."""

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Roster:
        found = json.loads(data)
        return cls(
            found["durable"],
            {name: Member(**each) for name, each in found["members"].items()},
            {int(partition): Owner(**each) for partition, each in found["owners"].items()},
            found["epochs"],
        )

    def beat(self, name: str, lease: float, seat: str, sharing: Sharing) -> None:
        """Be in the group, and show that we live."""
        member = self.members.get(name)
        if member is None:
            self.epochs += 1
            self.members[name] = Member(self.epochs, 0, lease, seat, str(sharing))
        else:
            member.beat += 1
            member.seat = seat

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.members.pop(name, None)
        self.owners = {
            partition: owner for partition, owner in self.owners.items() if owner.member in self.members
        }

    def quotas(self, channel: str, partitions: int) -> dict[str, int]:
        """How many partitions each member should own."""
        members = sorted(self.members, key=lambda name: self.members[name].joined)
        sharing = Sharing(self.members[members[0]].sharing) if members else Sharing.SHARED
        return shares_of(sharing, channel, partitions, members)

    def owned_by(self, name: str) -> dict[int, int]:
        """The epoch of each partition that this member owns."""
        return {partition: owner.epoch for partition, owner in self.owners.items() if owner.member == name}

    def take_free(self, name: str, partitions: int, quota: int) -> None:
        room = quota - len(self.owned_by(name))
        for partition in range(partitions):
            if room > 0 and partition not in self.owners:
                self.epochs += 1
                self.owners[partition] = Owner(name, self.epochs)
                room -= 1

    def give_up(self, name: str, partitions: Iterable[int]) -> None:
        for partition in partitions:
            if partition in self.owners and self.owners[partition].member == name:
                del self.owners[partition]
