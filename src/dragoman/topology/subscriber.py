"""Subscribers: an object with ``receive(message, multipart)``, or a function of the same shape."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Sequence
from types import UnionType
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
    return typing.cast(Receive, receive)


def types_of(receive: Receive, given: Sequence[type] | None) -> tuple[type, ...]:
    """The record classes that may come: as given, or as the first parameter is annotated.

    None at all means that messages come as plain values.
    """
    found = _annotated(receive) if given is None else tuple(given)
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
    if len(parameters) < 2:
        raise ConfigurationError(
            "A subscriber takes a message and its multipart.",
            code="topology.subscriber",
            next="Write it as receive(message, multipart).",
        )
    target = receive if inspect.isroutine(receive) else type(receive).__call__
    try:
        annotation = typing.get_type_hints(target).get(parameters[0].name)
    except NameError:
        annotation = parameters[0].annotation
    if annotation in (None, Any, dict, object, inspect.Parameter.empty) or isinstance(annotation, str):
        return ()
    if typing.get_origin(annotation) is dict:
        return ()
    if isinstance(annotation, UnionType) or typing.get_origin(annotation) is typing.Union:
        return tuple(typing.get_args(annotation))
    return (annotation,)
