"""What an endpoint's parameters ask for, read from its annotations once."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from dragoman.client import markers
from dragoman.core.database import Transaction
from dragoman.core.errors import ConfigurationError
from dragoman.core.message import Message
from dragoman.schema.records import is_record

Hints = Mapping[str, Any]
NOTHING: tuple[Any, ...] = (None, type(None))


class Kind(StrEnum):
    PAYLOAD = "payload"
    KEY = "key"
    HEADERS = "headers"
    METADATA = "metadata"
    MESSAGE = "message"
    PRODUCER = "producer"
    CLIENT = "client"
    OUTBOX = "outbox"
    TRANSACTION = "transaction"


OF_MESSAGES = (Kind.PAYLOAD, Kind.KEY, Kind.HEADERS, Kind.METADATA, Kind.MESSAGE)
"""What differs from message to message."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """``types`` are the classes of the annotation without ``None``; ``channel`` is a producer's."""

    name: str
    kind: Kind
    types: tuple[Any, ...] = ()
    optional: bool = False
    channel: str = ""
    many: bool = False
    """A list, one for each message of a batch."""


def hints_of(thing: Callable[..., Any] | type, scopes: Mapping[str, Any] | None = None) -> Hints | None:
    """Resolved annotations; ``None`` if a name in them is not known yet."""
    try:
        return typing.get_type_hints(thing, localns=dict(scopes or {}), include_extras=True)
    except NameError:
        return None


def parameters_of(function: Callable[..., Any], hints: Hints | None, name: str) -> tuple[Parameter, ...]:
    """The parameters of an endpoint, ``self`` apart. Raises ``ConfigurationError``."""
    hints = hints_of(function) if hints is None else hints
    if hints is None:
        raise ConfigurationError(
            "Its annotations name something that its module does not know.",
            code="configuration.endpoint",
            next="Define or import the record classes at the top of the module.",
            endpoint=name,
        )
    found = [
        _parameter(each, hints, name)
        for each in inspect.signature(function).parameters.values()
        if each.name != "self" and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    payloads = [each.name for each in found if each.kind is Kind.PAYLOAD]
    if len(payloads) != 1:
        raise ConfigurationError(
            f"An endpoint has one payload parameter, this has {len(payloads)}"
            + (f": {', '.join(payloads)}." if payloads else "."),
            code="configuration.endpoint",
            next="Annotate it with a record class; mark others with Annotated and Key, Headers or Metadata.",
            endpoint=name,
        )
    of_messages = [each for each in found if each.kind in OF_MESSAGES]
    single = [each.name for each in of_messages if not each.many]
    if 0 < len(single) < len(of_messages):
        raise ConfigurationError(
            f"The endpoint takes a list of messages, but only one of {', '.join(single)}.",
            code="configuration.endpoint",
            next="Make each of its parameters a list: list[Metadata], Annotated[list[str], Key].",
            endpoint=name,
        )
    return tuple(found)


def _parameter(parameter: inspect.Parameter, hints: Hints, endpoint: str) -> Parameter:
    if parameter.name not in hints:
        raise ConfigurationError(
            f"The parameter {parameter.name!r} has no annotation.",
            code="configuration.endpoint",
            next="Annotate it: its type says what it is given.",
            endpoint=endpoint,
        )
    found = injected(parameter.name, hints[parameter.name])
    if found is not None:
        return found
    plain, marks = unwrapped(hints[parameter.name])
    many = typing.get_origin(plain) is list
    if many:
        plain, inner = unwrapped(typing.get_args(plain)[0])
        marks += inner
    classes, optional = alternatives(plain)
    if classes == (markers.Metadata,) or _marked(marks, markers.Metadata):
        return Parameter(parameter.name, Kind.METADATA, many=many)
    if classes == (Message,):
        return Parameter(parameter.name, Kind.MESSAGE, many=many)
    if _marked(marks, markers.Headers):
        return Parameter(parameter.name, Kind.HEADERS, classes, many=many)
    kind = Kind.KEY if _marked(marks, markers.Key) else Kind.PAYLOAD
    known = (str, bytes, int) if kind is Kind.KEY else (bytes, dict, Any)
    for each in classes:
        if not is_record(each) and typing.get_origin(each) not in (dict, Mapping) and each not in known:
            raise ConfigurationError(
                f"The {kind} parameter {parameter.name!r} cannot be {each!r}.",
                code="configuration.endpoint",
                next=f"Use a record class, or {', '.join(getattr(x, '__name__', str(x)) for x in known)}.",
                endpoint=endpoint,
            )
    return Parameter(parameter.name, kind, classes, optional, many=many)


def injected(name: str, annotation: Any) -> Parameter | None:
    """A producer or the client itself, wanted by a parameter or by a controller's attribute."""
    from dragoman.client.client import Client
    from dragoman.client.producer import Producer
    from dragoman.client.transactional.outbox import Outbox

    plain, marks = unwrapped(annotation)
    if plain is Client:
        return Parameter(name, Kind.CLIENT)
    if plain is Transaction:
        return Parameter(name, Kind.TRANSACTION)
    target = next((mark for mark in marks if isinstance(mark, markers.To)), None)
    if target is None:
        return None
    arguments = typing.get_args(plain)
    if typing.get_origin(plain) is Outbox and len(arguments) == 1:
        kind = Kind.OUTBOX
    elif typing.get_origin(plain) is Producer and len(arguments) == 1:
        kind = Kind.PRODUCER
    else:
        raise ConfigurationError(
            f"{name!r} is marked with To, so it is a producer of a record.",
            code="configuration.endpoint",
            next=f'Write {name}: Annotated[Producer[YourRecord], To("{target.channel}")].',
        )
    if not is_record(arguments[0]):
        raise ConfigurationError(
            f"{name!r} is to send {getattr(arguments[0], '__qualname__', arguments[0])}, which is no record.",
            code="configuration.endpoint",
            next="Decorate the class with @record.",
        )
    return Parameter(name, kind, arguments, channel=target.channel)


def unwrapped(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """The annotation without ``Annotated``, and what was said in it."""
    if typing.get_origin(annotation) is Annotated:
        plain, *marks = typing.get_args(annotation)
        return plain, tuple(marks)
    return annotation, ()


def alternatives(annotation: Any) -> tuple[tuple[Any, ...], bool]:
    """The members of a union without ``None``, and whether ``None`` was one."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = typing.get_args(annotation)
        rest = tuple(each for each in members if each not in NOTHING)
        return rest, len(rest) < len(members)
    return (annotation,), False


def _marked(marks: tuple[Any, ...], marker: type) -> bool:
    return any(mark is marker or isinstance(mark, marker) for mark in marks)
