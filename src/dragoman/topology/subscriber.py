"""Subscribers: an object with ``receive(message, multipart)``, or a function of the same shape."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace, UnionType
from typing import Any, Protocol

from dragoman.core.errors import ConfigurationError
from dragoman.schema.records import is_record
from dragoman.topology.multipart import Multipart


class Subscriber(Protocol):
    def receive(self, message: Any, multipart: Multipart) -> Awaitable[None] | None:
        """Called in the event loop for each message. A plain ``def`` must not block.

        ``message`` is the first or only object; the others are had by ``multipart.get(Class)``.
        """


Receive = Callable[[Any, Multipart], Awaitable[None] | None]


def receive_of(subscriber: Subscriber | Receive) -> Receive:
    receive = getattr(subscriber, "receive", subscriber)
    if not callable(receive):
        raise ConfigurationError(
            f"{type(subscriber).__qualname__} is not a subscriber.",
            code="topology.subscriber",
            next="Give it a method receive(message, multipart), or offer a function of that shape.",
        )
    if isinstance(subscriber, type):
        raise ConfigurationError(
            f"{subscriber.__qualname__} is a class.",
            code="topology.subscriber",
            next="Offer an object of it.",
        )
    try:
        inspect.signature(receive).bind(None, None)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            "A subscriber takes a message and its multipart.",
            code="topology.subscriber",
            next="Write it as receive(message, multipart).",
        ) from error
    return typing.cast(Receive, receive)


def types_of(receive: Receive, given: Sequence[type] | None) -> tuple[type, ...]:
    """The record classes that may come: as given, or as the first parameter is annotated.

    None at all means that messages come as plain values.
    """
    found = _annotated(receive) if given is None else (given,) if isinstance(given, type) else tuple(given)
    for cls in found:
        if not is_record(cls):
            raise ConfigurationError(
                f"{cls!r} is not a record class.",
                code="topology.types",
                next="Decorate the class with @record, or offer the subscriber without types.",
            )
    return found


def _annotated(receive: Receive) -> tuple[type, ...]:
    parameters = list(inspect.signature(receive).parameters.values())
    annotation = _resolved(receive, parameters[0])
    if annotation in (None, Any, dict, object, inspect.Parameter.empty):
        return ()
    if typing.get_origin(annotation) is dict:
        return ()
    if isinstance(annotation, UnionType) or typing.get_origin(annotation) is typing.Union:
        return tuple(typing.get_args(annotation))
    return (annotation,)


def _resolved(receive: Receive, parameter: inspect.Parameter) -> Any:
    """The annotation itself. That of the multipart does not matter: it may be imported for checkers alone."""
    if not isinstance(parameter.annotation, str):
        return parameter.annotation
    target = inspect.unwrap(receive.func if isinstance(receive, functools.partial) else receive)
    target = target if inspect.isroutine(target) else type(target).__call__
    alone = SimpleNamespace(__annotations__={"message": parameter.annotation})
    try:
        return typing.get_type_hints(alone, getattr(target, "__globals__", {}))["message"]
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise ConfigurationError(
            f"The annotation {parameter.annotation!r} of the message cannot be resolved: {error}.",
            code="topology.types",
            next="Name the classes when you offer the subscriber: types=[...]",
        ) from error
