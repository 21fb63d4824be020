"""What the discoveries of a topology know, beside what the model says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dragoman.language import syntax as s
from dragoman.language.model import Interaction, Model
from dragoman.language.path import channel_name
from dragoman.language.running.parameters import pattern
from dragoman.language.running.places import exposures_of, scheme_of_exposure
from dragoman.topology.endpoint import Endpoint
from dragoman.topology.topic import Role


class Difference(NamedTuple):
    target: str
    detail: str


def differences(model: Model, announced: Iterable[Endpoint]) -> Iterator[Difference]:
    """Topics are those of the model if they are named as its channels, with any values for parameters.

    Publishers and subscribers that are missing, that the model does not have, or that are at another broker.
    Topics of others are none of our business.
    """
    known = list(announced)
    for channel in model.channels.values():
        for message in channel.messages:
            names = pattern(message.path)
            here = [each for each in known if names.fullmatch(each.topic.key)]
            interactions = model.interactions_by_channel[channel.name.text]
            yield from _of_message(model, message, [i for i in interactions if i.message is message], here)


def _of_message(
    model: Model, message: s.Message, interactions: list[Interaction], here: list[Endpoint]
) -> Iterator[Difference]:
    for role in Role:
        mine = [each for each in interactions if each.receives is (role is Role.SUBSCRIBER)]
        found = [each for each in here if each.role is role]
        target = f"topic {found[0].topic.key if found else channel_name(message.path)}"
        names = ", ".join(each.endpoint.name.text for each in mine)
        if mine and not found:
            yield Difference(target, f"No {role} is announced, the model has {names}.")
        if found and not mine:
            yield Difference(target, f"{_count(len(found), role)} announced, the model has none.")
        places = (scheme_of_exposure(each) for one in mine for each in exposures_of(model, one))
        schemes = {each for each in places if each is not None}
        for each in found if schemes else ():
            if each.admin not in schemes:
                told = f"announced by {each.admin}, the model says {' or '.join(sorted(schemes))}."
                yield Difference(f"topic {each.topic.key}", f"A {role} is {told}")


def _count(number: int, role: Role) -> str:
    return f"1 {role} is" if number == 1 else f"{number} {role}s are"
