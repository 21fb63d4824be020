"""The channels of a model as constants."""

from __future__ import annotations

import re

from dragoman.language.generators.code.records import python_name
from dragoman.language.generators.code.text import docstring
from dragoman.language.generators.definitions import identifier, unique
from dragoman.language.model import Model
from dragoman.language.path import channel_name, path_names
from dragoman.language.syntax import Message

_TYPES = {"bool": "bool", "int": "int", "long": "int", "float": "float", "double": "float"}


def constant(message: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", message).upper()


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
            lines.append(f'{constant(message.name.text)} = "{channel_name(message.path)}"')
            lines.append(docstring(f"{channel.name.text}: {message.path.text.value}"))
    return "\n".join(lines + functions) + "\n"


def _function(message: Message) -> list[str]:
    """The channel for given parameters."""
    types = {each.name.text: each.basic for each in message.path.parameters}
    taken = set[str]()
    names = {name: python_name(unique(identifier(name), taken)) for name in path_names(message.path)}
    parameters = (f"{names[name]}: {_TYPES.get(types.get(name, ''), 'str')}" for name in names)
    filled = channel_name(message.path, {name: f"{{{names[name]}}}" for name in names})
    return [
        f"def {constant(message.name.text).lower()}_channel({', '.join(parameters)}) -> str:",
        f'    """The channel of {message.name.text} for these parameters."""',
        f'    return f"{filled}"',
    ]
