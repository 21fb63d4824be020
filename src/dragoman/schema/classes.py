"""Reading record classes: ``@record`` and dataclasses, pydantic models, msgspec structs.

Each family keeps its fields in its own place; here they become one list of ``Attribute``.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from dragoman.core.errors import InvalidSchema
from dragoman.schema.markers import Doc
from dragoman.schema.types import MISSING, Construction

SCOPE = "__dragoman_hints__"
"""Where ``@record`` keeps annotations that it could resolve while their scope was still alive."""


@dataclass(frozen=True, slots=True)
class Attribute:
    name: str
    attribute: str
    argument: str
    annotation: Any
    default: Any = MISSING


@dataclass(frozen=True, slots=True)
class ClassShape:
    construction: Construction
    attributes: tuple[Attribute, ...]
    refusals: tuple[type[Exception], ...] = ()


def is_record(cls: object) -> bool:
    """Whether this is a class of one of the accepted families."""
    return isinstance(cls, type) and (
        dataclasses.is_dataclass(cls) or issubclass(cls, msgspec.Struct) or _is_pydantic(cls)
    )


def shape_of(cls: type) -> ClassShape:
    if _is_pydantic(cls):
        return _pydantic(cls)
    if issubclass(cls, msgspec.Struct):
        return _struct(cls)
    if dataclasses.is_dataclass(cls):
        return _dataclass(cls)
    raise InvalidSchema(
        f"{cls.__qualname__} is not a record class.",
        code="schema.not-a-record",
        next="Decorate it with @record, or use a dataclass, a pydantic model or a msgspec struct.",
    )


def _is_pydantic(cls: type) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(cls, pydantic.BaseModel)


def hints_of(cls: type) -> Mapping[str, Any]:
    kept = cls.__dict__.get(SCOPE)
    if kept is not None:
        return typing.cast("Mapping[str, Any]", kept)
    try:
        return typing.get_type_hints(cls, localns={cls.__name__: cls}, include_extras=True)
    except NameError as error:
        raise InvalidSchema(
            f"The annotations of {cls.__qualname__} name {error.name!r}, which is not known in its module.",
            code="schema.unknown-annotation",
            next="Define or import it at the top of the module.",
        ) from error


def _dataclass(cls: type) -> ClassShape:
    hints = hints_of(cls)
    fields = [each for each in dataclasses.fields(cls) if each.init]
    attributes = tuple(
        Attribute(each.name, each.name, each.name, hints[each.name], _dataclass_default(each))
        for each in fields
    )
    return ClassShape(_dataclass_construction(cls, fields), attributes)


def _dataclass_construction(cls: type, fields: list[dataclasses.Field[Any]]) -> Construction:
    parameters = cls.__dataclass_params__  # type: ignore[attr-defined]
    plain = (
        parameters.init
        and not parameters.frozen
        and not hasattr(cls, "__post_init__")
        and _inherits(cls, "__new__")
        and _inherits(cls, "__setattr__")
        and len(fields) == len(dataclasses.fields(cls))
        and not _own_init(cls)
    )
    if plain:
        return Construction.ASSIGN
    if any(each.kw_only for each in fields) or _own_init(cls):
        return Construction.KEYWORD
    return Construction.POSITIONAL


def _inherits(cls: type, name: str) -> bool:
    """Whether the class leaves this method as ``object`` has it."""
    return getattr(cls, name) is getattr(object, name)


def _own_init(cls: Any) -> bool:
    """Whether somebody wrote ``__init__`` by hand: the generated one is not compiled from a file."""
    code = getattr(cls.__init__, "__code__", None)
    return code is None or code.co_filename != "<string>"


def _dataclass_default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return _constant(field.default_factory)
    return MISSING


def _constant(factory: Callable[[], Any]) -> Any:
    """What a factory makes, if it is always the same. A clock or a random id is no default of a schema."""
    value = factory()
    if not (isinstance(value, list | dict | set | frozenset | tuple) or is_record(type(value))):
        return MISSING
    return value if value == factory() else MISSING


def _struct(cls: type) -> ClassShape:
    hints = hints_of(cls)
    fields = msgspec.structs.fields(cls)
    attributes = tuple(
        Attribute(each.encode_name, each.name, each.name, hints[each.name], _struct_default(each))
        for each in fields
    )
    construction = Construction.KEYWORD if _keyword_only(cls) else Construction.POSITIONAL
    return ClassShape(construction, attributes, (msgspec.ValidationError,))


def _keyword_only(cls: type) -> bool:
    """Whether some field can only be given by its name."""
    parameters = inspect.signature(cls).parameters.values()
    return any(each.kind is inspect.Parameter.KEYWORD_ONLY for each in parameters)


def _struct_default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return _constant(field.default_factory)
    return MISSING


def _pydantic(cls: Any) -> ClassShape:
    import pydantic

    return ClassShape(Construction.KEYWORD, tuple(_pydantic_attributes(cls)), (pydantic.ValidationError,))


def _pydantic_attributes(cls: Any) -> Iterator[Attribute]:
    by_name = cls.model_config.get("populate_by_name") or cls.model_config.get("validate_by_name")
    for name, info in cls.model_fields.items():
        if info.exclude and not info.is_required():
            continue
        annotation = info.annotation
        for mark in info.metadata:
            annotation = typing.Annotated[annotation, mark]
        if info.description is not None:
            annotation = typing.Annotated[annotation, Doc(info.description)]
        alias = info.validation_alias if isinstance(info.validation_alias, str) else info.alias
        argument = name if by_name or alias is None else alias
        if info.is_required():
            default: Any = MISSING
        elif info.default_factory is not None:
            # A factory that looks at the other fields makes no constant; older versions have none.
            looks = getattr(info, "default_factory_takes_validated_data", False)
            default = MISSING if looks else _constant(info.default_factory)
        else:
            default = info.default
        yield Attribute(info.serialization_alias or info.alias or name, name, argument, annotation, default)
