"""The channels of a model as constants."""

from __future__ import annotations

import re

from dragoman.language.model import Model
from dragoman.language.syntax import Path

_PARAMETER = re.compile(r"\$?\{([^{}]*)\}")


def channel_name(path: Path) -> str:
    """A path as a name that every broker takes: dots for slashes, a parameter by its name."""
    dotted = _PARAMETER.sub(r"\1", path.text.value).strip("/").replace("/", ".")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", dotted) or "channel"


def constant(message: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", message).upper()


def channels_module(model: Model, source: str) -> str:
    lines = [
        f'"""Channels of {model.api.name.text}. Generated from {source}: do not edit."""',
        "",
    ]
    for channel in model.channels.values():
        for message in channel.messages:
            lines.append(f'{constant(message.name.text)} = "{channel_name(message.path)}"')
            lines.append(f'"""{channel.name.text}: {message.path.text.value}"""'.replace("\\", "/"))
    return "\n".join(lines) + "\n"
