"""Tables, checkpoints and state are kept in local folders: a URL is refused, not taken for a name."""

from __future__ import annotations

import re
from pathlib import Path

from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import redacted

_URL = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*):")
"""No slash is needed: ``s3:bucket`` is a mistake, too, and a ``Path`` of ``s3://bucket`` has lost one."""
STATE_FOLDER = "_dragoman"
"""It is in the same folder as the tables, and holds what pipelines remember of them."""
_LONGEST_NAME = 200
"""Bytes. File systems allow 255, and names of other files are made from this one."""


def local(place: str | Path, setting: str) -> Path:
    """The absolute path of a folder; ``~`` is the home folder.

    Raises ``ConfigurationError`` for a URL, whatever its scheme is.
    """
    found = _URL.match(str(place))
    if found is None:
        try:
            return Path(place).expanduser().absolute()
        except RuntimeError as error:
            raise ConfigurationError(
                f"{setting} is {str(place)!r}, and there is no such home folder.",
                code="configuration.location",
                next="Write the path out.",
            ) from error
    plain = found[1].lower() == "file"
    raise ConfigurationError(
        f"{setting} is {redacted(str(place))!r}, but tables and their state are kept in local folders: "
        f"the scheme {found[1]} is not supported.",
        code="configuration.location",
        next="Write it as a path, without file://."
        if plain
        else "Give a folder that all nodes see, such as a mounted disk. A folder whose name has a colon is"
        " written with ./ before it.",
    )


def folder_name(name: str, setting: str) -> str:
    """The name, which is to become a folder's. Raises ``ConfigurationError`` if it would lead elsewhere."""
    local(name, setting)
    if not name.strip():
        reason = "is empty"
    elif any(letter in "/\\" or not letter.isprintable() for letter in name):
        reason = "has a slash or a letter that cannot be printed"
    elif name.startswith((".", "~")) or name == STATE_FOLDER:
        reason = "cannot be the name of a folder of its own"
    elif len(name.encode()) > _LONGEST_NAME:
        reason = f"is longer than {_LONGEST_NAME} bytes"
    else:
        return name
    raise ConfigurationError(
        f"{setting} is {name!r}: the name {reason}.",
        code="configuration.location",
        next=f"Set {setting} to letters, digits and _.",
    )
