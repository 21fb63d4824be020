"""An endpoint: a sender or receiver as others see it, and its entry in a discovery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dragoman.core.errors import DragomanError, EntryRefused
from dragoman.topology.topic import Role, Topic, topic_of

MANDATORY = ("service.id", "type", "pubsub.topic")
"""Of every entry. The other properties below are written too, and needed to connect."""
LONGEST = 64 * 1024
"""Bytes of an entry."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``framework`` is the running program, ``service`` a number in it. ``more`` is the admin's business."""

    framework: str
    service: int
    role: Role
    topic: Topic
    admin: str
    serializer: str | None = None
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.framework}-{self.service}"

    @property
    def key(self) -> str:
        return f"/pubsub/{self.role}/{self.topic.name}/{self.id}"

    def properties(self) -> dict[str, str]:
        """A flat map of text, with the names of all generations of readers."""
        found = {
            **self.more,
            "service.id": str(self.service),
            "type": self.role.value,
            "pubsub.topic": self.topic.name,
            "pubsub.type": self.role.value,
            "pubsub.admin.type": self.admin,
            "pubsub.endpoint.uuid": self.id,
            "pubsub.endpoint.type": self.role.value,
            "pubsub.topic.name": self.topic.name,
            "pubsub.config": self.admin,
            "pubsub.framework.uuid": self.framework,
        }
        if self.topic.scope is not None:
            found["pubsub.scope"] = found["pubsub.topic.scope"] = self.topic.scope
        if self.serializer is not None:
            found["serializer"] = found["pubsub.serializer"] = self.serializer
        return found


_STANDARD = frozenset(Endpoint("", 0, Role.PUBLISHER, Topic("t", "s"), "", "avro").properties())


def endpoint_of(properties: object, key: str = "") -> Endpoint:
    """From an entry. With ``key`` it must be the one the entry belongs under. Raises ``EntryRefused``."""
    if not isinstance(properties, Mapping) or not all(
        isinstance(name, str) and isinstance(value, str) for name, value in properties.items()
    ):
        raise EntryRefused("An entry is a flat map of text.", code="topology.entry-shape", key=key)
    lacking = [name for name in MANDATORY if not properties.get(name)]
    if lacking:
        raise EntryRefused(f"The entry lacks {', '.join(lacking)}.", code="topology.entry-shape", key=key)
    try:
        scope = properties.get("pubsub.scope") or properties.get("pubsub.topic.scope")
        endpoint = Endpoint(
            properties.get("pubsub.framework.uuid") or _framework_in(key, properties["service.id"]),
            int(properties["service.id"]),
            Role(properties["type"]),
            topic_of(properties["pubsub.topic"], scope),
            properties.get("pubsub.admin.type") or properties.get("pubsub.config") or "",
            properties.get("serializer") or properties.get("pubsub.serializer"),
            {name: value for name, value in properties.items() if name not in _STANDARD},
        )
    except (ValueError, DragomanError) as error:
        raise EntryRefused(
            f"The entry cannot be used: {error}", code="topology.entry-shape", key=key
        ) from error
    if key and endpoint.key != key:
        raise EntryRefused(
            "The entry stands under a key that is not its own.", code="topology.entry-key", key=key
        )
    return endpoint


def _framework_in(key: str, service: str) -> str:
    framework = key.rpartition("/")[2].removesuffix(f"-{service}")
    if not framework:
        raise ValueError("its framework is not named.")
    return framework
