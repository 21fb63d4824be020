"""The channels of a model: constants, and functions for those whose paths have parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from dragoman.language.generators.code.records import python_name
from dragoman.language.generators.code.text import docstring
from dragoman.language.generators.definitions import identifier, unique
from dragoman.language.model import Model
from dragoman.language.path import channel_name, path_names
from dragoman.language.syntax import Message

_TYPES = {"bool": "bool", "int": "int", "long": "int", "float": "float", "double": "float"}


class Parameter(NamedTuple):
    """A parameter of a path as one of a function."""

    original: str
    name: str
    type: str
    description: str


def constant(message: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", message).upper()


def parameters(message: Message) -> list[Parameter]:
    """Those of the message's path, in its order."""
    said = {each.name.text: each for each in message.path.parameters}
    taken, found = set[str](), []
    for original in path_names(message.path):
        name = python_name(unique(identifier(original), taken))
        each = said.get(original)
        type = _TYPES.get(each.basic, "str") if each else "str"
        described = each.description.value.strip() if each and each.description else ""
        found.append(Parameter(original, name, type, described))
    return found


def channel_of(message: Message) -> str:
    """What ``channels.py`` calls the channel of a message: a constant, or a function of its parameters."""
    name = constant(message.name.text)
    return f"{name.lower()}_channel" if path_names(message.path) else name


def channel_expression(message: Message, values: Iterable[str]) -> str:
    """The channel of a message, with an expression for each of its parameters."""
    given = ", ".join(values)
    return f"{channel_of(message)}({given})" if path_names(message.path) else channel_of(message)


def channels_module(model: Model, source: str) -> str:
    lines = [
        f'"""Channels of {model.api.name.text}. Generated from {source}: do not edit."""',
        "",
    ]
    functions: list[str] = []
    for channel in model.channels.values():
        for message in channel.messages:
            if path_names(message.path):
                functions += ["", "", *_function(message)]
                continue
            lines.append(f'{constant(message.name.text)} = "{channel_name(message.path)}"')
            lines.append(docstring(f"{channel.name.text}: {message.path.text.value}"))
    if len(lines) == 2:
        lines.pop()
    return "\n".join(lines + functions) + "\n"


def _function(message: Message) -> list[str]:
    """The channel for given parameters."""
    given = parameters(message)
    filled = channel_name(message.path, {each.original: f"{{{each.name}}}" for each in given})
    return [
        f"def {channel_of(message)}({', '.join(f'{each.name}: {each.type}' for each in given)}) -> str:",
        f'    """The channel of {message.name.text} for these parameters."""',
        f'    return f"{filled}"',
    ]
