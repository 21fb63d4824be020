"""What a program gives, looked at before it is used: a mistake is told where it is made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core.errors import ConfigurationError


def require(name: str, value: object, *kinds: type) -> None:
    """Raises ``ConfigurationError`` if the value is of none of these classes."""
    if not isinstance(value, kinds):
        wanted = " or ".join("None" if kind is type(None) else kind.__qualname__ for kind in kinds)
        raise ConfigurationError(f"{name} is {_shown(value)}.", next=f"Use {wanted}.")


def at_least(name: str, value: float, least: float, *, whole: bool = False) -> None:
    number = int if whole else (int, float)
    # Written so that it refuses what is not a number at all, too.
    if not isinstance(value, number) or isinstance(value, bool) or not value >= least:
        what = "a whole number, " if whole else ""
        raise ConfigurationError(f"The option {name} is {_shown(value)}.", next=f"Use {what}{least} or more.")


def several(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    """All of them. One alone, where several may be given, is a common slip."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ConfigurationError(f"{name} is {_shown(values)}, not a list.", next=f"Write {name}=[...].")
    return tuple(values)


def layers(middleware: Iterable[Any]) -> tuple[Any, ...]:
    """Middleware, each of which can be called with a delivery and the next handler."""
    found = several("middleware", middleware)
    for each in found:
        if isinstance(each, type) or not callable(each):
            what = "a class, not an object" if isinstance(each, type) else "no middleware"
            raise ConfigurationError(
                f"{_shown(each)} is {what}.",
                next="Use a function, or an object that is called with a delivery and the next handler.",
            )
    return found


def _shown(value: object) -> str:
    """Short, and never more than a plain value: it may be long, or secret."""
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, str):
        return repr(value[:40])
    return getattr(value, "__qualname__", type(value).__qualname__)
