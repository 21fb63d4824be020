"""Which method of an orchestrator takes a request: by method, entity and version."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from dragoman.client.parameters import Hints, hints_of
from dragoman.core.errors import ConfigurationError
from dragoman.gateway.envelope.mapping import from_data
from dragoman.gateway.envelope.method import Method
from dragoman.gateway.envelope.model import Destination, Envelope
from dragoman.gateway.orchestration.call import Call
from dragoman.schema.records import is_record

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


@dataclass(frozen=True, slots=True)
class Route:
    """A method of an orchestrator, with what its parameters want."""

    name: str
    timeout: float | None
    wanted: Mapping[str, Any]

    def arguments(self, request: Envelope, call: Call) -> dict[str, Any]:
        """Raises ``DecodeError`` and ``ConstraintViolated`` for data that does not fit."""
        given: dict[Any, Any] = {Envelope: request, Call: call}
        return {
            parameter: given[kind] if kind in given else from_data(request.data, kind)
            for parameter, kind in self.wanted.items()
        }


class Routes:
    """The marked methods of one class."""

    def __init__(self, cls: type) -> None:
        self._routes: dict[_Key, Route] = {}
        for name, member in inspect.getmembers(cls, inspect.isfunction):
            for mark in getattr(member, _MARK, ()):
                self._add(cls, name, mark)
        if not self._routes:
            raise ConfigurationError(
                f"{cls.__qualname__} answers no requests.",
                code="configuration.orchestrator",
                next="Decorate a method with @on.",
            )

    def _add(self, cls: type, name: str, mark: On) -> None:
        key = (mark.method, mark.entity, mark.version)
        if key in self._routes:
            raise ConfigurationError(
                f"{cls.__qualname__}.{name} and {self._routes[key].name} take the same requests.",
                code="configuration.orchestrator",
                next="Give one of them another entity or version.",
            )
        self._routes[key] = Route(name, mark.timeout, _wanted(cls, name, mark))

    def find(self, destination: Destination) -> Route | None:
        """The most particular one."""
        method, entity, version = destination.intent, destination.entity, destination.version
        wanted = ((entity, version), (entity, None), (None, version), (None, None))
        return next((self._routes[method, *each] for each in wanted if (method, *each) in self._routes), None)


def _wanted(cls: type, name: str, mark: On) -> Mapping[str, Any]:
    """What the parameters of a method are, by their types."""
    method = getattr(cls, name)
    hints = mark.hints if mark.hints is not None else hints_of(method) or {}
    wanted = {each: hints.get(each) for each in list(inspect.signature(method).parameters)[1:]}
    for parameter, kind in wanted.items():
        if kind is not Envelope and kind is not Call and not is_record(kind):
            raise ConfigurationError(
                f"The parameter {parameter!r} of {cls.__qualname__}.{name} cannot be {kind!r}.",
                code="configuration.orchestrator",
                next="Use a record class, Envelope or Call.",
            )
    return wanted
