"""What an endpoint asks for and nobody could give, found without asking the broker."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from dragoman.client.condition import fields_of, read_condition
from dragoman.client.correlation import has_place
from dragoman.client.endpoint import Endpoint
from dragoman.core.errors import ConfigurationError
from dragoman.schema.records import describe, is_record


def contradictions(endpoint: Endpoint) -> Iterator[ConfigurationError]:
    yield from _yielding(endpoint)
    yield from _circles(endpoint)
    yield from _raising(endpoint)
    yield from _identity(endpoint)
    yield from _condition(endpoint)


def _yielding(endpoint: Endpoint) -> Iterator[ConfigurationError]:
    if inspect.isgeneratorfunction(endpoint.function):
        yield ConfigurationError(
            "It is a plain 'def' that yields, of which nothing would be run.",
            next="Make it 'async def', annotated with AsyncIterator[YourRecord], or return one record.",
        )
    elif inspect.isasyncgenfunction(endpoint.function) and endpoint.reply is None:
        yield ConfigurationError(
            "It yields replies, and does not say of which class.",
            next="Annotate what it returns: AsyncIterator[YourRecord].",
        )


def _circles(endpoint: Endpoint) -> Iterator[ConfigurationError]:
    """A message that goes back to where it came from would go round for ever."""
    channel, options = endpoint.channel, endpoint.options
    for name, aside in (
        ("dead_letter", options.dead_letter_channel(channel)),
        ("invalid", options.invalid_channel(channel)),
    ):
        if aside == channel:
            yield ConfigurationError(
                f"The option {name} is the channel itself, so a bad message would come for ever.",
                next="Name another channel, such as '{channel}.dead'.",
            )


def _raising(endpoint: Endpoint) -> Iterator[ConfigurationError]:
    given: tuple[Any, ...] = endpoint.raises
    for error in given:
        if not (isinstance(error, type) and issubclass(error, Exception)):
            shown = getattr(error, "__qualname__", repr(error))
            yield ConfigurationError(
                f"{shown} in 'raises' is no exception class.", next="Write class X(Exception) with @record."
            )
        elif not is_record(error):
            yield ConfigurationError(
                f"{error.__qualname__} cannot be sent: it is no record.",
                next="Decorate the exception class with @record.",
            )


def _identity(endpoint: Endpoint) -> Iterator[ConfigurationError]:
    place = endpoint.identity
    if place is None:
        return
    if endpoint.transaction is None:
        yield ConfigurationError(
            "It has an identity, and no transaction in which it could be remembered.",
            next="Let it take tx: Transaction, or leave 'identity' out.",
        )
    for cls in filter(is_record, endpoint.payload.types):
        if place.part == "payload" and not has_place(cls, place):
            yield ConfigurationError(
                f"{cls.__qualname__} has nothing at {place}.", next="Point at a field of the message."
            )


def _condition(endpoint: Endpoint) -> Iterator[ConfigurationError]:
    """A field that no message has: all of them would be passed over, and nobody would know why."""
    text, classes = endpoint.options.consumed_if, endpoint.payload.types
    if text is None:
        return
    try:
        read_condition(text)
    except ConfigurationError as error:
        yield error
        return
    if not all(map(is_record, classes)):
        return
    fields = {field.attribute for cls in classes for field in describe(cls).fields}
    for name in sorted(fields_of(text) - fields):
        if any(hasattr(cls, name) for cls in classes):
            continue
        yield ConfigurationError(
            f"Its condition looks at payload.{name}, which {_named(classes)} does not have.",
            next="Correct the name of the field.",
        )


def _named(classes: tuple[type, ...]) -> str:
    return " or ".join(cls.__qualname__ for cls in classes)
