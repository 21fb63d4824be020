"""The names of keys. All keys of a channel share their hash tag, so that one script may use them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    prefix: str

    @property
    def channels(self) -> str:
        """The set of all channels."""
        return f"{self.prefix}:channels"

    def channel(self, name: str) -> str:
        """The hash with a channel's settings; all its other keys begin with it."""
        return f"{self.prefix}:{{{name}}}"

    def stream(self, name: str, partition: int) -> str:
        return f"{self.channel(name)}:{partition}"

    def delayed(self, name: str) -> str:
        """The sorted set of messages that are not due yet."""
        return f"{self.channel(name)}:delayed"

    def groups(self, name: str) -> str:
        """The set of the channel's groups."""
        return f"{self.channel(name)}:groups"

    def group(self, name: str, group: str) -> str:
        """The hash with a group's records, each beside its revision."""
        return f"{self.channel(name)}:group:{group}"
