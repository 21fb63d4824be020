"""Which method of an orchestrator takes a request: by method, entity and version."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from dragoman.client.parameters import Hints, hints_of
from dragoman.core.errors import ConfigurationError
from dragoman.gateway.envelope.method import Method
from dragoman.gateway.envelope.model import Destination

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__dragoman_on__"
_Key = tuple[Method, str | None, str | None]


@dataclass(frozen=True, slots=True)
class On:
    """What ``@on`` was told."""

    method: Method
    entity: str | None
    version: str | None
    timeout: float | None
    hints: Hints | None


def on(
    method: Method | str,
    entity: str | None = None,
    *,
    version: str | None = None,
    timeout: float | None = None,
) -> Callable[[F], F]:
    """Give this method of an orchestrator the requests for a method and an entity.

    Without ``entity`` or ``version`` it takes those that have no method of their own. After ``timeout``
    seconds the attempt counts as failed.
    """
    intent = Method.of(method)
    if not intent.is_request:
        raise ConfigurationError(
            f"{str(method)!r} is not a method of requests.",
            code="configuration.orchestrator",
            next="Use select, update, insert, delete or process.",
        )
    inner = sys._getframe(1)
    scopes = {**(inner.f_back.f_locals if inner.f_back else {}), **inner.f_locals}

    def decorate(function: F) -> F:
        marks = getattr(function, _MARK, ())
        mark = On(intent, entity, version, timeout, hints_of(function, scopes))
        setattr(function, _MARK, (*marks, mark))
        return function

    return decorate


class Routes:
    """The marked methods of one class, the most particular first."""

    def __init__(self, cls: type) -> None:
        self._routes: dict[_Key, tuple[str, On]] = {}
        for name, member in inspect.getmembers(cls, inspect.isfunction):
            for mark in getattr(member, _MARK, ()):
                key = (mark.method, mark.entity, mark.version)
                if key in self._routes:
                    raise ConfigurationError(
                        f"{cls.__qualname__}.{name} and {self._routes[key][0]} take the same requests.",
                        code="configuration.orchestrator",
                        next="Give one of them another entity or version.",
                    )
                self._routes[key] = (name, mark)
        if not self._routes:
            raise ConfigurationError(
                f"{cls.__qualname__} answers no requests.",
                code="configuration.orchestrator",
                next="Decorate a method with @on.",
            )

    def __iter__(self) -> Any:
        return iter(self._routes.values())

    def find(self, destination: Destination) -> tuple[str, On] | None:
        method, entity, version = destination.intent, destination.entity, destination.version
        wanted = ((entity, version), (entity, None), (None, version), (None, None))
        return next((self._routes[method, *each] for each in wanted if (method, *each) in self._routes), None)
