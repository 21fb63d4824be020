"""Records are plain Python classes, and the schema lives beside the data.

    @record(namespace="com.mycorp", doc="A request for a loan.")
    class LoanRequest:
        request_id: int
        amount: Annotated[float, Min(0)]
        note: str | None = None

``describe`` says what a class looks like, without any format; the formats do the rest. Dataclasses, pydantic
models and msgspec structs are described as they are.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import sys
import threading
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar, dataclass_transform, overload

from dragoman.core.errors import InvalidSchema
from dragoman.schema import markers
from dragoman.schema.classes import SCOPE, Attribute, is_record, shape_of
from dragoman.schema.describing import Describer, doc_in, marker, ordered, unwrapped
from dragoman.schema.types import MISSING, EnumType, Field, Names, RecordType, Type, UnionType

__all__ = ["describe", "is_record", "named", "names_of", "record", "type_of"]

C = TypeVar("C", bound=type)

_NAMES = "__dragoman_names__"
_DESCRIBED = "__dragoman_described__"
_lock = threading.RLock()
_describing: dict[type, RecordType | EnumType] = {}


@overload
def record(cls: C, /) -> C: ...


@overload
def record(
    *,
    name: str | None = None,
    namespace: str = "",
    doc: str | None = None,
    aliases: tuple[str, ...] | list[str] = (),
    frozen: bool = False,
) -> Callable[[C], C]: ...


@dataclass_transform()
def record(
    cls: Any = None,
    /,
    *,
    name: str | None = None,
    namespace: str = "",
    doc: str | None = None,
    aliases: tuple[str, ...] | list[str] = (),
    frozen: bool = False,
) -> Any:
    """Make a record of an annotated class: slots, a constructor, equality and a readable ``repr``.

    ``name`` is the class' own unless given. Lists, dicts, sets and records may be written as plain defaults;
    each instance gets its own copy.
    """
    scope = sys._getframe(1).f_locals

    def decorate(cls: type) -> type:
        made = _as_dataclass(cls, frozen)
        setattr(made, _NAMES, Names(name or cls.__name__, namespace, doc, tuple(aliases)))
        hints = _hints_in(made, scope)
        if hints is not None:
            setattr(made, SCOPE, hints)
        return made

    return decorate if cls is None else decorate(cls)


def named(
    *,
    name: str | None = None,
    namespace: str = "",
    doc: str | None = None,
    aliases: tuple[str, ...] | list[str] = (),
) -> Callable[[C], C]:
    """Name an enum, dataclass, pydantic model or struct for schemas; the class stays as it is."""

    def decorate(cls: C) -> C:
        setattr(cls, _NAMES, Names(name or cls.__name__, namespace, doc, tuple(aliases)))
        return cls

    return decorate


def names_of(cls: type) -> Names:
    """What the class is called in schemas; its own name, without a namespace, if nobody said."""
    found = cls.__dict__.get(_NAMES)
    return found if isinstance(found, Names) else Names(cls.__name__)


def describe(cls: type) -> RecordType:
    """The description of a record class, made once. Raises ``InvalidSchema`` for any other class."""
    described = _described(cls)
    if isinstance(described, RecordType):
        return described
    raise InvalidSchema(
        f"{cls.__qualname__} is not a record class.",
        code="schema.not-a-record",
        next="Decorate it with @record.",
    )


def type_of(annotation: Any, name: str = "value") -> Type:
    """The type of any annotation, such as ``list[Order]``. ``name`` is given to types without one."""
    return Describer(_described, str(annotation), name).type_of(annotation)


def _described(cls: Any) -> RecordType | EnumType:
    if not isinstance(cls, type):
        raise InvalidSchema(
            f"{cls} is not a class of its own.", code="schema.not-a-record", next="Derive a class from it."
        )
    found = cls.__dict__.get(_DESCRIBED)
    if found is not None:
        return typing.cast("RecordType | EnumType", found)
    with _lock:
        # Another thread may have described it while this one waited.
        return cls.__dict__.get(_DESCRIBED) or _describing.get(cls) or _describe_all(cls)


def _describe_all(cls: type) -> RecordType | EnumType:
    """Describe a class and those it uses. They are shown to other threads together, when all are complete."""
    outermost = not _describing
    try:
        described = _describe_enum(cls) if issubclass(cls, Enum) else _describe_record(cls)
        if outermost:
            for each, complete in _describing.items():
                setattr(each, _DESCRIBED, complete)
        return described
    finally:
        if outermost:
            _describing.clear()


def _describe_enum(cls: type[Enum]) -> EnumType:
    described = EnumType(names_of(cls), cls)
    _describing[cls] = described
    return described


def _describe_record(cls: type) -> RecordType:
    shape = shape_of(cls)
    described = RecordType(names_of(cls), cls, shape.construction, refusals=shape.refusals)
    # Known before its fields are, so that a record which contains itself finds itself.
    _describing[cls] = described
    described.fields = tuple(_field(described, attribute) for attribute in shape.attributes)
    return described


def _field(owner: RecordType, attribute: Attribute) -> Field:
    place = f"{owner.cls.__qualname__}.{attribute.attribute}"
    describer = Describer(_described, place, attribute.name, owner.names.namespace)
    type = describer.type_of(attribute.annotation)
    _, marks = unwrapped(attribute.annotation, ())
    default = attribute.default
    if default is MISSING and isinstance(type, UnionType) and type.optional:
        default = None
    aliases = tuple(alias for mark in marks if isinstance(mark, markers.Aliases) for alias in mark.names)
    order = marker(marks, markers.Order)
    name = marker(marks, markers.Name)
    return Field(
        name=name.name if name else attribute.name,
        attribute=attribute.attribute,
        argument=attribute.argument,
        type=ordered(type, default),
        default=default,
        doc=doc_in(marks),
        aliases=aliases,
        order=order.order if order else "ascending",
    )


def _as_dataclass(cls: type, frozen: bool) -> type:
    for name in inspect.get_annotations(cls):
        default = cls.__dict__.get(name)
        if type(default).__hash__ is None and not isinstance(default, dataclasses.Field):
            setattr(cls, name, dataclasses.field(default_factory=functools.partial(copy.deepcopy, default)))
    if "__slots__" in cls.__dict__:
        return dataclasses.dataclass(frozen=frozen)(cls)
    return dataclasses.dataclass(slots=True, frozen=frozen)(cls)


def _hints_in(cls: type, scope: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The annotations as the scope of the class resolves them, or ``None`` if they look ahead."""
    try:
        return typing.get_type_hints(cls, localns={**scope, cls.__name__: cls}, include_extras=True)
    except NameError:
        return None
