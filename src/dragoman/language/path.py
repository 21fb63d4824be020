"""Channel paths and the parameters in them."""

from __future__ import annotations

import re

from dragoman.language.syntax import Path

PARAMETER = re.compile(r"\$\{([^{}]*)\}|\{([^{}]*)\}")
"""``${name}`` or ``{name}``."""


def path_names(path: Path) -> list[str]:
    """The names of the parameters in a path, each once."""
    found = (match[1] if match[1] is not None else match[2] for match in PARAMETER.finditer(path.text.value))
    return list(dict.fromkeys(found))
