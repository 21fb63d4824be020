"""``@controller``: a class whose methods are endpoints of one group. Each client makes its own instance."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, TypeVar, overload

from dragoman.client.addresses import own_group
from dragoman.client.arguments import layers, require
from dragoman.client.endpoint import Endpoint, EndpointMark, mark_of, may_be_silent, reply_class
from dragoman.client.options import DEFAULT_GROUP, ClientOptions, EndpointOptions
from dragoman.client.outcome import Middleware
from dragoman.client.parameters import Hints, Parameter, hints_of, injected, parameters_of
from dragoman.core.errors import ConfigurationError

C = TypeVar("C", bound=type)

_MARK = "__dragoman_controller__"


@dataclass(frozen=True, slots=True)
class ControllerMark:
    """What ``@controller`` was told."""

    group: str | None = None
    options: EndpointOptions | None = None
    middleware: tuple[Middleware, ...] = ()
    hints: Hints | None = None


@overload
def controller(cls: C, /) -> C: ...


@overload
def controller(
    *,
    group: str | None = None,
    options: EndpointOptions | None = None,
    middleware: Sequence[Middleware] = (),
) -> Callable[[C], C]: ...


def controller(
    cls: Any = None,
    /,
    *,
    group: str | None = None,
    options: EndpointOptions | None = None,
    middleware: Sequence[Middleware] = (),
) -> Any:
    """Make a controller of a class. ``group`` is the consumer group of its endpoints.

    Attributes annotated as ``Annotated[Producer[X], To("channel")]`` or ``Client`` are filled in before the
    first message.
    """
    inner = sys._getframe(1)
    scopes = {**(inner.f_back.f_locals if inner.f_back else {}), **inner.f_locals}
    require("The options of a controller", options, EndpointOptions, NoneType)
    around = layers(middleware)

    def decorate(cls: C) -> C:
        setattr(cls, _MARK, ControllerMark(group, options, around, hints_of(cls, scopes)))
        return cls

    return decorate if cls is None else decorate(cls)


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller in one client: an instance with its endpoints and wishes. A function has no instance."""

    name: str
    instance: object | None
    endpoints: tuple[Endpoint, ...]
    wishes: tuple[Parameter, ...]


def bind(given: object, options: ClientOptions) -> Controller:
    """Read a controller class, an instance of one, or an endpoint function. Raises ``ConfigurationError``."""
    alone = mark_of(given)
    if alone is not None and callable(given):
        name = getattr(given, "__qualname__", repr(given))
        return Controller(name, None, (_endpoint(name, given, alone, ControllerMark(), options),), ())
    cls = given if isinstance(given, type) else type(given)
    mark = getattr(cls, _MARK, None)
    if not isinstance(mark, ControllerMark):
        raise ConfigurationError(
            f"{cls.__qualname__} is not a controller.",
            code="configuration.controller",
            next="Decorate the class with @controller, or the function with @endpoint.",
        )
    instance = _instance(cls) if isinstance(given, type) else given
    endpoints = tuple(
        _endpoint(f"{cls.__qualname__}.{name}", getattr(instance, name), found, mark, options)
        for name, found in _methods(cls)
    )
    if not endpoints:
        raise ConfigurationError(
            f"{cls.__qualname__} has no endpoints.",
            code="configuration.controller",
            next="Decorate a method with @endpoint.",
        )
    hints = mark.hints if mark.hints is not None else hints_of(cls) or {}
    wishes = (injected(name, annotation) for name, annotation in hints.items())
    return Controller(cls.__qualname__, instance, endpoints, tuple(wish for wish in wishes if wish))


def _instance(cls: type) -> object:
    try:
        return cls()
    except TypeError as error:
        raise ConfigurationError(
            f"{cls.__qualname__} cannot be made without arguments: {error}",
            code="configuration.controller",
            next="Give the client an instance instead of the class.",
        ) from error


def _methods(cls: type) -> Iterator[tuple[str, EndpointMark]]:
    for name, member in inspect.getmembers(cls, inspect.isroutine):
        found = mark_of(member)
        if found is not None:
            yield name, found


def _endpoint(
    name: str, function: Any, mark: EndpointMark, owner: ControllerMark, options: ClientOptions
) -> Endpoint:
    hints = mark.hints if mark.hints is not None else hints_of(function)
    named = mark.group or owner.group
    chosen = replace(mark.options or owner.options or options.endpoint, **mark.subscription)
    return Endpoint(
        name=name,
        channel=mark.channel,
        group=named or (options.group if chosen.durable else own_group(options.name)),
        chose_group=bool(named) or not chosen.durable or options.group != DEFAULT_GROUP,
        reply_to=mark.reply_to,
        reply=reply_class(hints),
        silent=may_be_silent(hints),
        options=chosen,
        middleware=(*owner.middleware, *mark.middleware),
        function=function,
        parameters=parameters_of(function, hints, name),
        raises=mark.raises,
        correlation=mark.correlation,
        identity=mark.identity,
        transactional=mark.transactional,
    )
