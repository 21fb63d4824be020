"""The labels of metrics and the names of spans: few, whatever the program does.

Reply channels and groups of a client's own have names that are generated, new ones with each client. In a
label or the name of a span, what is generated is ``*``. An attribute of a span may have the whole name.
"""

from __future__ import annotations

import re
from functools import lru_cache

GENERATED = "*"

_GENERATED = re.compile(r"(?<=\.)(?:[0-9a-f]{8})?[0-9a-f]{16}(?=\.|$)")
"""What ``new_address`` and groups without a name end with: after a moment or without one, a random number."""


@lru_cache(maxsize=1024)
def label_of(name: str) -> str:
    """A channel or a group as it is shown where names must be few."""
    return _GENERATED.sub(GENERATED, name)


def replies_label(client: str) -> str:
    """The channels where a client of this name waits for the answers to its requests."""
    return f"{client}.replies.{GENERATED}"
