"""Channels on a broker that knows none: each is declared by a retained message, and has a topic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from dragoman.adapters.mqtt.content import ENVELOPE, PROPERTIES
from dragoman.adapters.mqtt.wire import Property, properties, text
from dragoman.core.broker import Sharing
from dragoman.core.channel import Channel
from dragoman.core.errors import ConfigurationError, DragomanError

SETTINGS = ("content", "retain", "topic")


def level(name: str) -> str:
    """A name as one level of a topic: without slashes and wildcards."""
    return quote(name, safe="-_.~:,;!()@=&'")


def name_of(level: str) -> str:
    return unquote(level)


@dataclass(frozen=True, slots=True)
class Filters:
    """``unwanted`` are from times when the group shared in another way."""

    wanted: tuple[str, ...]
    unwanted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Declared:
    """A channel with all that publishing and receiving need to know."""

    channel: Channel
    topic: str
    foreign: bool
    """The topic is other programs' choice, so it has no partitions: members share it as the server likes."""
    raw_topics: tuple[bytes, ...]
    """By partition, as they go over the wire."""
    content: str
    retain: bool
    expiry: bytes
    """The retention as an encoded property: the server drops what waits longer."""

    def filters(self, group: str, number: int, sharing: Sharing) -> Filters:
        """What the session for a seat is subscribed to, and what it must not be."""
        if not self.foreign:
            own = f"{self.topic}/{number}"
            return Filters((own, self.topic) if number == 0 else (own,), ())
        shared = f"$share/{level(group)}/{self.topic}"
        if sharing is Sharing.SHARED:
            return Filters((shared,), (self.topic,))
        # One seat is enough for a group that does not share; what others were given is still handled.
        return Filters((self.topic,) if number == 0 else (), (shared,))

    @property
    def has_wildcards(self) -> bool:
        return "+" in self.topic or "#" in self.topic


def declare(channel: Channel, default_content: str) -> Declared:
    """Raises ``ConfigurationError`` for settings that MQTT does not have."""
    settings = channel.settings
    for name in settings:
        if name not in SETTINGS:
            raise ConfigurationError(
                f"MQTT channels have no setting {name!r}.",
                code="configuration.setting",
                next=f"Known: {', '.join(SETTINGS)}.",
                channel=channel.name,
            )
    content = _choice(channel, "content", (PROPERTIES, ENVELOPE), default_content)
    retain = _choice(channel, "retain", ("true", "false"), "false") == "true"
    topic = settings.get("topic") or level(channel.name)
    if "\0" in topic or topic.startswith("$"):
        raise ConfigurationError(f"{topic!r} is not a topic.", next="Leave out '$'.", channel=channel.name)
    seconds = None if channel.retention is None else max(1, min(int(channel.retention), 0xFFFFFFFF))
    expiry = b"" if seconds is None else properties({Property.MESSAGE_EXPIRY: seconds})[1:]
    kept = Channel(channel.name, channel.partitions, channel.retention, {**settings, "content": content})
    foreign = "topic" in settings
    numbers = range(1 if foreign else channel.partitions)
    topics = tuple(text(topic if foreign else f"{topic}/{number}") for number in numbers)
    return Declared(kept, topic, foreign, topics, content, retain, expiry)


def _choice(channel: Channel, name: str, choices: tuple[str, ...], default: str) -> str:
    found = channel.settings.get(name, default)
    if found not in choices:
        raise ConfigurationError(
            f"The setting {name} cannot be {found!r}.",
            code="configuration.setting",
            next=f"Choose one of {', '.join(choices)}.",
            channel=channel.name,
        )
    return found


def written(declared: Declared) -> bytes:
    channel = declared.channel
    found = {
        "partitions": channel.partitions,
        "retention": channel.retention,
        "settings": dict(channel.settings),
    }
    return json.dumps(found, sort_keys=True).encode()


def read(name: str, raw: bytes) -> Declared | None:
    """``None`` for what is no declaration: anybody may publish there."""
    try:
        found: Mapping[str, Any] = json.loads(raw)
        channel = Channel(
            name, int(found["partitions"]), found.get("retention"), dict(found.get("settings", {}))
        )
        return declare(channel, PROPERTIES)
    except (ValueError, KeyError, TypeError, AttributeError, DragomanError):
        return None
