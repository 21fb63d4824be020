"""The names of streams and subjects."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_UNSAFE = re.compile(rb"[^A-Za-z0-9_-]")
LONGEST = 180
"""A stream is a folder of this name on the server."""


def token(name: str) -> str:
    """One token of a subject, from which the name can be told again."""
    return _UNSAFE.sub(lambda found: b"=%02X" % found[0][0], name.encode()).decode()


def name_of(text: str) -> str:
    return re.sub(rb"=([0-9A-F]{2})", lambda found: bytes([int(found[1], 16)]), text.encode()).decode()


@dataclass(frozen=True, slots=True)
class Names:
    prefix: str

    def stream(self, channel: str, partition: int) -> str:
        return f"{self._folder(channel)}-{partition}"

    def _folder(self, channel: str) -> str:
        text = f"{self.prefix}-{token(channel)}"
        if len(text) > LONGEST:
            text = f"{text[:100]}-{hashlib.sha256(channel.encode()).hexdigest()[:40]}"
        return text

    def subject(self, channel: str, partition: int) -> str:
        return f"{self.prefix}.{token(channel)}.{partition}"

    @property
    def every_channel(self) -> str:
        """The subjects of all first partitions: each channel has one."""
        return f"{self.prefix}.*.0"

    def groups(self, lasting: bool) -> str:
        """The stream with the records of groups."""
        return f"{self.prefix}_groups" if lasting else f"{self.prefix}_passing_groups"

    def record(self, channel: str, group: str, name: str, lasting: bool) -> str:
        return f"{self.groups(lasting)}.{token(channel)}.{token(group)}.{name}"

    def records(self, channel: str, lasting: bool) -> str:
        return f"{self.groups(lasting)}.{token(channel)}.>"

    @property
    def delayed(self) -> str:
        """The stream of messages that are not due yet."""
        return f"{self.prefix}_delayed"

    def delayed_subject(self, channel: str) -> str:
        return f"{self.delayed}.{token(channel)}"

    def mover(self, channel: str) -> str:
        """The consumer that brings delayed messages in."""
        text = token(channel)
        return text if len(text) <= LONGEST else hashlib.sha256(channel.encode()).hexdigest()[:40]

    def seat(self, id: str) -> str:
        return f"{self.prefix}_seat.{id}"
