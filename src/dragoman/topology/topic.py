"""A topic: what publishers and subscribers have in common."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from dragoman.core.channel import check_name
from dragoman.core.errors import ConfigurationError


class Role(StrEnum):
    PUBLISHER = "publisher"
    SUBSCRIBER = "subscriber"

    @property
    def other(self) -> Role:
        return Role.SUBSCRIBER if self is Role.PUBLISHER else Role.PUBLISHER

    @property
    def short(self) -> str:
        """As the names of configuration files end."""
        return self.value[:3]


class Topic(NamedTuple):
    """A name and an optional scope. A topic without a scope is another one than the same in a scope."""

    name: str
    scope: str | None = None

    @property
    def key(self) -> str:
        """As channels and configuration files are named."""
        return self.name if self.scope is None else f"{self.scope}.{self.name}"

    @property
    def path(self) -> str:
        """Another one for each topic, which ``key`` is not: names may have dots."""
        return f"{self.scope or ''}/{self.name}"

    def __str__(self) -> str:
        return self.key


def topic_of(name: str, scope: str | None = None) -> Topic:
    """Raises ``ConfigurationError`` for names that no broker and no discovery could carry."""
    check_name(name)
    if scope is not None:
        check_name(scope)
        if "." in scope:
            raise ConfigurationError(
                f"{scope!r} is not a scope.",
                code="topology.scope",
                next="Use a name without dots.",
                topic=name,
            )
    return Topic(name, scope)
