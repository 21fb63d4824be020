"""Why a topic is served as it is: each admin's score with its reasons, each setting with its origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dragoman.topology.endpoint import Endpoint
from dragoman.topology.manager import Topology
from dragoman.topology.scoring import Reason
from dragoman.topology.settings import Setting
from dragoman.topology.topic import Role, Topic


@dataclass(frozen=True, slots=True)
class Verdict:
    """One admin's part."""

    admin: str
    score: int
    reasons: tuple[Reason, ...]
    chosen: bool
    settings: Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class Explanation:
    topic: Topic
    role: Role
    verdicts: tuple[Verdict, ...]
    others: tuple[Endpoint, ...]
    """Endpoints of the topic in other programs."""
    notes: tuple[str, ...]
    """What will not work, though nothing is wrong by itself."""

    @property
    def chosen(self) -> Verdict | None:
        return next((each for each in self.verdicts if each.chosen), None)

    def plain(self) -> dict[str, object]:
        """For programs."""
        return {
            "topic": self.topic.name,
            "scope": self.topic.scope,
            "role": self.role.value,
            "chosen": None if self.chosen is None else self.chosen.admin,
            "admins": [
                {
                    "admin": each.admin,
                    "score": each.score,
                    "reasons": [{"points": reason.points, "why": reason.why} for reason in each.reasons],
                    "settings": {
                        name: {"value": setting.value, "origin": setting.origin}
                        for name, setting in sorted(each.settings.items())
                    },
                }
                for each in self.verdicts
            ],
            "endpoints": [each.properties() for each in self.others],
            "notes": list(self.notes),
        }


def explain(
    topology: Topology,
    topic: Topic,
    role: Role,
    properties: Mapping[str, str] | None = None,
    package: str | None = None,
) -> Explanation:
    """For a topic in use as it is; for any other as it would be."""
    slot = topology.explained_slot(topic, role, properties or {}, package)
    candidates = topology.rank(slot)
    best = candidates[0].admin if candidates and candidates[0].score.points > 0 else None
    serving = slot.handler.admin if slot.handler is not None else best
    verdicts = tuple(
        Verdict(each.admin.type, each.score.points, each.score.reasons, each.admin is serving, each.settings)
        for each in candidates
    )
    others = tuple(
        endpoint
        for which in (Role.PUBLISHER, Role.SUBSCRIBER)
        for endpoint in topology.endpoints.of(topic, which).values()
    )
    admin = serving.type if serving is not None else None
    return Explanation(topic, role, verdicts, others, _notes(topic, role, admin, others, topology))


def _notes(
    topic: Topic, role: Role, admin: str | None, others: tuple[Endpoint, ...], topology: Topology
) -> tuple[str, ...]:
    notes = []
    if admin is None:
        notes.append("No admin takes the topic: nothing will be sent or received here.")
    else:
        for other in others:
            if other.role is role.other and other.admin != admin:
                notes.append(
                    f"The {other.role} {other.id} uses {other.admin}, this one {admin}: they will not meet."
                )
    for each in topology.endpoints:
        if each.topic.name == topic.name and each.topic.scope != topic.scope:
            notes.append(f"The {each.role} {each.id} is in the scope {each.topic.scope or '(none)'}.")
    for discovery in topology.discoveries:
        if discovery.trouble is not None:
            notes.append(f"{discovery.url} is in trouble: {discovery.trouble}")
    return tuple(notes)
