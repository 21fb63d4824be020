"""Selective consumers of one channel: who shares its messages, and whether they select alike."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.language import syntax as s
from dragoman.language.model import Interaction, Model
from dragoman.language.pointer import canonical


def others(model: Model, interaction: Interaction) -> list[Interaction]:
    """Other endpoints that receive the same message, whether from the same group or from one of their own.

    A reply is for the one that asked, so it is not shared.
    """
    if interaction.message.part == "reply":
        return []
    return [
        each
        for each in model.interactions_by_channel[interaction.channel.name.text]
        if each.message is interaction.message
        and each.receives
        and each.endpoint.name.text != interaction.endpoint.name.text
    ]


def selecting_otherwise(model: Model, interaction: Interaction) -> list[Interaction]:
    """Those of the others that may want what this one does not want, or the reverse."""
    mine = _meaning(interaction.use.conditions)
    return [each for each in others(model, interaction) if _meaning(each.use.conditions) != mine]


def _meaning(conditions: Iterable[s.Condition]) -> frozenset[tuple[object, ...]]:
    """Equal for conditions that say the same, in whatever order. Unequal ones may still mean the same."""
    return frozenset(
        (canonical(each.left.value), each.operator, _plain(each.right.value)) for each in conditions
    )


def _plain(value: object) -> object:
    return canonical(value) if isinstance(value, str) else value
