"""The properties of a topic: which there are, what they may say, and where each value comes from."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from dragoman.core.errors import ConfigurationError
from dragoman.core.options import one_of, positive, positive_int
from dragoman.topology.grouping import Limits

TOPIC = "pubsub.topic"
SCOPE = "pubsub.scope"
ADMIN = "pubsub.config"
"""The admin that must be used, by its type."""
RELIABLE = "pubsub.intent.reliable"
LATE_JOINER = "pubsub.intent.latejoiner"
QOS = "qos"
SERIALIZER = "serializer"
QUEUE = "queue.size"
OVERFLOW = "queue.overflow"
MULTIPART_TIMEOUT = "multipart.timeout"
MULTIPART_OBJECTS = "multipart.objects"
MULTIPART_BYTES = "multipart.bytes"

_ALIASES = {"pubsub.admin.config": ADMIN, "pubsub.serializer": SERIALIZER, "pubsub.qos": QOS}
"""Other names that the same properties have had."""

LIBRARY = {
    SERIALIZER: "avro",
    QUEUE: "10000",
    OVERFLOW: "oldest",
    MULTIPART_TIMEOUT: "30",
    MULTIPART_OBJECTS: "64",
    MULTIPART_BYTES: str(1024 * 1024),
}
"""What counts where nobody says otherwise."""
LIBRARY_ORIGIN = "library"


def _text(text: str) -> str:
    if not text:
        raise ValueError("it is empty.")
    return text


READERS: Mapping[str, Callable[[str], object]] = {
    TOPIC: _text,
    SCOPE: _text,
    ADMIN: _text,
    RELIABLE: one_of("reliable"),
    LATE_JOINER: one_of("late-joiner-support"),
    QOS: one_of("sample", "control"),
    SERIALIZER: _text,
    QUEUE: positive_int,
    OVERFLOW: one_of("oldest", "newest"),
    MULTIPART_TIMEOUT: positive,
    MULTIPART_OBJECTS: positive_int,
    MULTIPART_BYTES: positive_int,
}
"""All properties that every admin understands."""


@dataclass(frozen=True, slots=True)
class Setting:
    value: str
    origin: str
    """Where it was said: the request, a file with its line, an admin's defaults, the library."""
    explicit: bool = True
    """Said for this topic, not a default."""


Settings = Mapping[str, Setting]


def checked(name: str, value: object, origin: str, owners: Iterable[str]) -> tuple[str, Setting]:
    """The property under its own name. ``owners`` are the types of admins: their own properties begin so."""
    if not isinstance(value, str):
        raise ConfigurationError(
            f"The property {name} is {type(value).__name__}.",
            code="topology.property",
            next="Properties are text.",
            origin=origin,
        )
    name = _ALIASES.get(name, name)
    reader = READERS.get(name)
    if reader is None:
        if name.partition(".")[0] in owners and "." in name:
            return name, Setting(value, origin)
        close = difflib.get_close_matches(name, [*READERS, *_ALIASES], 1)
        raise ConfigurationError(
            f"Nobody knows the property {name!r}.",
            code="topology.property",
            next=f"Did you mean {close[0]!r}?"
            if close
            else f"Known: {', '.join(READERS)}, and <admin>.<name>.",
            origin=origin,
        )
    try:
        reader(value)
    except ValueError as error:
        raise ConfigurationError(
            f"The property {name} cannot be {value!r}: {error}",
            code="topology.property",
            next="Correct it where it was given.",
            origin=origin,
        ) from error
    return name, Setting(value, origin)


def value_of(settings: Settings, name: str) -> str | None:
    found = settings.get(name)
    return None if found is None else found.value


def values(settings: Settings) -> dict[str, str]:
    return {name: each.value for name, each in settings.items()}


def limits_of(settings: Settings) -> Limits:
    return Limits(
        float(settings[MULTIPART_TIMEOUT].value),
        int(settings[MULTIPART_OBJECTS].value),
        int(settings[MULTIPART_BYTES].value),
    )
