"""All admins for one topic, the best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.core.errors import ConfigurationError
from dragoman.topology.admin import Admin, Wanted
from dragoman.topology.configuration import Configuration
from dragoman.topology.scoring import Score
from dragoman.topology.settings import Settings
from dragoman.topology.slot import Slot


@dataclass(frozen=True, slots=True)
class Candidate:
    admin: Admin
    settings: Settings
    score: Score


def rank(admins: Sequence[Admin], configuration: Configuration, slot: Slot) -> list[Candidate]:
    """By score; between equal ones by the order in which they were configured."""
    found = []
    for admin in admins:
        settings: Settings = {}
        try:
            said = configuration.said(slot.topic, slot.role, slot.given, slot.package, admin.type)
            settings = configuration.resolve(said, slot.role, admin.type)
        except ConfigurationError as error:
            score = Score.no(str(error))
        else:
            score = _score(admin, Wanted(slot.topic, slot.role, settings))
        found.append(Candidate(admin, settings, score))
    return sorted(found, key=lambda each: -each.score.points)


def _score(admin: Admin, wanted: Wanted) -> Score:
    trouble = admin.trouble
    return admin.score(wanted) if trouble is None else Score.no(f"in trouble: {trouble}")
