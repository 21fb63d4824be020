"""The labels of metrics and the names of spans: few, whatever the program does.

Reply channels and groups of a client's own have names that end in a random number, a new one for each client.
In a label or the name of a span, that part is ``*``. An attribute of a span may have the whole name.
"""

from __future__ import annotations

from functools import lru_cache

from dragoman.client.addresses import GENERATED_PART

GENERATED = "*"


@lru_cache(maxsize=1024)
def label_of(name: str) -> str:
    """A channel or a group as it is shown where names must be few."""
    return GENERATED_PART.sub(GENERATED, name)


def replies_label(client: str) -> str:
    """The channels where a client of this name waits for the answers to its requests."""
    return f"{client}.replies.{GENERATED}"
