"""What a registry knows about a class, kept on the class while the program runs.

The first use of a class on a channel asks the registry; the tag that it leaves spares all later ones. A class
may be used with several clients, registries and channels, so it carries one tag for each.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

_TAGS = "__dragoman_tags__"
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Tag:
    """``registry`` is its URL. Registry, channel, contract and version are the key, the id is the value."""

    registry: str
    channel: str
    contract: str
    version: int
    schema_id: int

    @property
    def key(self) -> tuple[str, str, str, int]:
        return (self.registry, self.channel, self.contract, self.version)


def tag(cls: type, tag: Tag) -> None:
    """Leave a tag on the class; one with the same key is replaced."""
    with _lock:
        kept = [old for old in tags(cls) if old.key != tag.key]
        setattr(cls, _TAGS, (*kept, tag))


def tags(cls: type) -> tuple[Tag, ...]:
    """All tags of this class, oldest first. A subclass does not inherit them: its schema is another."""
    found: tuple[Tag, ...] = cls.__dict__.get(_TAGS, ())
    return found


def tag_of(cls: type, registry: str, channel: str, contract: str | None = None) -> Tag | None:
    """The newest version's tag for this registry, channel and, if given, contract."""
    fitting = [
        each
        for each in tags(cls)
        if each.registry == registry and each.channel == channel and contract in (None, each.contract)
    ]
    return max(fitting, key=lambda each: each.version, default=None)


def untag(cls: type, registry: str | None = None) -> None:
    """Forget the tags of one registry, or all of them."""
    with _lock:
        kept = tuple(each for each in tags(cls) if registry is not None and each.registry != registry)
        setattr(cls, _TAGS, kept)
