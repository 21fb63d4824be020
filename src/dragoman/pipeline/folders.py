"""Tables, checkpoints and state are kept in local folders: a URL is refused, not taken for a name."""

from __future__ import annotations

import re
from pathlib import Path

from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import redacted

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/|$)")
"""One slash is enough: a ``Path`` of ``s3://bucket`` has lost the other."""


def local(place: str | Path, setting: str) -> Path:
    """The absolute path of a folder. Raises ``ConfigurationError`` for a URL, whatever its scheme is."""
    found = _URL.match(str(place))
    if found is None:
        return Path(place).absolute()
    plain = found[1].lower() == "file"
    raise ConfigurationError(
        f"{setting} is {redacted(str(place))!r}, but tables and their state are kept in local folders: "
        f"the scheme {found[1]} is not supported.",
        code="configuration.location",
        next="Write it as a path, without file://."
        if plain
        else "Give a folder that all nodes see, such as a mounted disk.",
    )
