"""How well an admin fits a topic, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dragoman.topology.settings import ADMIN, LATE_JOINER, QOS, RELIABLE, SERIALIZER, Settings, value_of

KNOWN = 1
OWN = 2
EXPLICIT = 100
INTENT = 25

_WEIGHED_OTHERWISE = frozenset({ADMIN, RELIABLE, LATE_JOINER, QOS})


@dataclass(frozen=True, slots=True)
class Profile:
    """What an admin is good at."""

    type: str
    reliable: bool
    """A message that was accepted arrives, though a process dies."""
    late_joiner: bool
    """A subscriber that comes later can have what was sent before."""
    qos: Mapping[str, int]
    """The points for ``sample`` and ``control``."""
    serializers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reason:
    points: int
    why: str


@dataclass(frozen=True, slots=True)
class Score:
    """Positive: it can. The highest wins."""

    points: int
    reasons: tuple[Reason, ...] = field(default=())

    @classmethod
    def no(cls, why: str) -> Score:
        return cls(0, (Reason(0, why),))


def weigh(profile: Profile, settings: Settings) -> Score:
    """One point for each property that was said, two for each of the admin's own, and weights for wishes."""
    wanted = value_of(settings, ADMIN)
    if wanted is not None and wanted != profile.type:
        return Score.no(f"{ADMIN} asks for {wanted}")
    serializer = value_of(settings, SERIALIZER)
    if serializer is not None and serializer not in profile.serializers:
        return Score.no(f"there is no serializer {serializer}")
    reasons = [Reason(EXPLICIT, f"{ADMIN} asks for it")] if wanted is not None else []
    for name, setting in sorted(settings.items()):
        if not setting.explicit or name in _WEIGHED_OTHERWISE:
            continue
        owner = name.partition(".")[0]
        if owner == profile.type:
            reasons.append(Reason(OWN, f"{name} is its own"))
        elif owner in ("pubsub", "queue", "multipart") or "." not in name:
            reasons.append(Reason(KNOWN, f"{name} is known"))
        else:
            reasons.append(Reason(0, f"{name} is another admin's"))
    reasons += _wishes(profile, settings)
    return Score(sum(each.points for each in reasons), tuple(reasons))


def _wishes(profile: Profile, settings: Settings) -> list[Reason]:
    reasons = []
    for name, can in ((RELIABLE, profile.reliable), (LATE_JOINER, profile.late_joiner)):
        if name in settings:
            reasons.append(Reason(INTENT if can else 0, f"{name} is {'met' if can else 'not met'}"))
    quality = value_of(settings, QOS)
    if quality is not None:
        reasons.append(Reason(profile.qos[quality], f"{QOS}={quality}"))
    return reasons
