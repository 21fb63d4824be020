"""Channel paths and the parameters in them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dragoman.language.syntax import Path

PARAMETER = re.compile(r"\$\{([^{}]*)\}|\{([^{}]*)\}")
"""``${name}`` or ``{name}``."""
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


def path_names(path: Path) -> list[str]:
    """The names of the parameters in a path, each once."""
    found = (match[1] if match[1] is not None else match[2] for match in PARAMETER.finditer(path.text.value))
    return list(dict.fromkeys(found))


def channel_name(path: Path, values: Mapping[str, str] | None = None) -> str:
    """A path as a name that every broker takes: dots for slashes, a parameter by its value or its name."""
    pieces = PARAMETER.split(path.text.value.strip("/"))
    name = ""
    for text, dollar, braces in zip(pieces[::3], [*pieces[1::3], None], [*pieces[2::3], None], strict=True):
        parameter = dollar if dollar is not None else braces
        name += _UNFIT.sub("-", text.replace("/", "."))
        if parameter is not None:
            name += (values or {}).get(parameter) or _UNFIT.sub("-", parameter)
    return name or "channel"
