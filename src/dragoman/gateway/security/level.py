"""How much somebody must show to get a response: three levels, and others by extension.

An own level is an object with a name, a rank and ``admits``; give it to the gateway beside these:

    class SameNetwork:
        name, rank = "same network", 15

        def admits(self, asking: Asking, held: Held) -> bool:
            return AUTHORIZED.admits(asking, held) and asking.peer.startswith("10.")

    levels = Levels(SameNetwork())
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dragoman.core.errors import ConfigurationError
from dragoman.gateway.security.principal import Principal
from dragoman.gateway.security.seal import same
from dragoman.gateway.store.port import Held


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks for a response, and what they show."""

    client: str
    principal: Principal
    token: str
    """The keyed hash of the original token, as it was shown; empty if it was not."""
    peer: str = ""


class Level(Protocol):
    name: str
    rank: int
    """The higher of two levels counts. Those that come with the gateway have 10, 20 and 30."""

    def admits(self, asking: Asking, held: Held) -> bool:
        """Whether they may have this response. Called for each one that is held under their ids."""


class Basic:
    """The client id is enough, so only ids that cannot be guessed protect the response."""

    name = "basic"
    rank = 10

    def admits(self, asking: Asking, held: Held) -> bool:
        return same(asking.client, held.client)


class Authorized:
    """A valid token or key of the same owner."""

    name = "authorized"
    rank = 20

    def admits(self, asking: Asking, held: Held) -> bool:
        principal = asking.principal
        return (
            BASIC.admits(asking, held)
            and principal.known
            and same(principal.owner, held.owner)
            and principal.may_be(held.client)
        )


class OriginalToken:
    """A valid token or key of the same owner, and the very token of the request."""

    name = "original_token"
    rank = 30

    def admits(self, asking: Asking, held: Held) -> bool:
        return AUTHORIZED.admits(asking, held) and bool(held.token) and same(asking.token, held.token)


BASIC, AUTHORIZED, ORIGINAL_TOKEN = Basic(), Authorized(), OriginalToken()

_NUMBERS = {"1": "basic", "2": "authorized", "3": "original_token"}


class Levels:
    """All levels that a gateway knows. A text that names none is forbidden."""

    def __init__(self, *own: Level) -> None:
        self._by_name: dict[str, Level] = {}
        all_levels: tuple[Level, ...] = (BASIC, AUTHORIZED, ORIGINAL_TOKEN, *own)
        for level in all_levels:
            if _plain(level.name) in self._by_name:
                raise ConfigurationError(
                    f"There are two levels named {level.name!r}.", next="Give yours another name."
                )
            self._by_name[_plain(level.name)] = level

    def find(self, text: str) -> Level | None:
        """By name or number: ``basic``, ``1``, ``level 1``, in any case of letters."""
        if text in self._by_name:
            return self._by_name[text]
        name = _plain(text).removeprefix("level_")
        return self._by_name.get(_NUMBERS.get(name, name))

    def require(self, text: str) -> Level:
        found = self.find(text)
        if found is None:
            raise ConfigurationError(
                f"{text!r} is not a level of security.",
                code="configuration.level",
                next=f"There are {', '.join(each.name for each in self._by_name.values())}.",
            )
        return found

    def highest(self, *levels: Level) -> Level:
        return max(levels, key=lambda level: level.rank)


def _plain(text: str) -> str:
    return "_".join(text.lower().replace("_", " ").split())
