"""What the names in a document mean, and the rules beyond grammar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from dragoman.core.errors import InvalidSchema
from dragoman.formats.thrift.model import (
    INTEGERS,
    Base,
    Const,
    Definition,
    Document,
    Enum,
    EnumType,
    Field,
    Items,
    Linked,
    ListType,
    MapType,
    Name,
    Pairs,
    Requiredness,
    Service,
    SetType,
    Struct,
    StructType,
    Text,
    Type,
    Typedef,
    Value,
    Written,
)
from dragoman.formats.thrift.parser import BASES, MAX_DEPTH
from dragoman.schema.scanning import Source

RESERVED = "dragoman.reserved"
"""An annotation of a struct: ids that are no longer in use, as in ``"3 amount, 4"``."""


MAX_VALUES = 100_000
"""Values in all constants and defaults: those that name others may multiply beyond measure."""


class Linker:
    """Resolves one document in place. ``included`` holds the linked documents behind its prefixes."""

    def __init__(self, document: Document, source: Source, included: Mapping[str, Linked]) -> None:
        self.source = source
        self.included = included
        self.names = {each.name: each for each in document.definitions}
        self.linked = Linked(document, {}, {})
        self.resolving: list[str] = []
        self.values = 0

    def link(self) -> Linked:
        """Raises ``InvalidSchema`` at the first rule that is broken."""
        definitions = self.linked.document.definitions
        self.unique(((each.name, each.at) for each in definitions), "the file")
        for definition in definitions:
            match definition:
                case Struct() | Enum() | Typedef():
                    self.linked.types[definition.name] = self.defined(definition)
                case Const():
                    self.linked.constants[definition.name] = definition.value, self.type(definition.written)
        for definition in definitions:
            match definition:
                case Struct():
                    self.struct(definition)
                case Enum():
                    self.enum(definition)
                case Service():
                    self.service(definition)
        for definition in definitions:
            match definition:
                case Struct():
                    self.defaults(definition.fields)
                case Const():
                    self.value(definition.value, self.type(definition.written), definition.at)
                case Service():
                    for function in definition.functions:
                        self.defaults(function.arguments)
        return self.linked

    def error(self, what: str, at: int, next: str = "") -> InvalidSchema:
        return self.source.error(what, at, next)

    def unique(self, names: Iterable[tuple[str, int]], owner: str) -> None:
        seen: set[str] = set()
        for name, at in names:
            if name in seen:
                raise self.error(f"{name!r} is defined twice in {owner}.", at, "Rename one of them.")
            seen.add(name)

    # Definitions.

    def struct(self, struct: Struct) -> None:
        self.fields(struct.fields, struct.name)
        try:
            reserved = dict(reserved_ids(struct))
        except ValueError:
            raise self.error(
                f"{RESERVED} of {struct.name} is not a list of ids.", struct.at, 'Write it as "3 amount, 4".'
            ) from None
        for field in struct.fields:
            if field.id in reserved:
                raise self.error(
                    f"The id {field.id} is reserved in {struct.name}.", field.at, "Use a new id."
                )
            if struct.kind == "union" and field.requiredness is Requiredness.REQUIRED:
                raise self.error("A union's field cannot be required.", field.at, "Leave the word away.")

    def fields(self, fields: list[Field], owner: str) -> None:
        self.unique(((each.name, each.at) for each in fields), owner)
        ids: dict[int, str] = {}
        for field in fields:
            if field.id in ids:
                raise self.error(
                    f"The id {field.id} of {field.name!r} is already used by {ids[field.id]!r} in {owner}.",
                    field.at,
                    f"The next free id is {max(each.id for each in fields) + 1}.",
                )
            ids[field.id] = field.name
            field.type = self.type(field.written)

    def defaults(self, fields: list[Field]) -> None:
        for field in fields:
            if field.default is not None:
                field.initial = self.value(field.default, field.type, field.at)

    def enum(self, enum: Enum) -> None:
        if not enum.members:
            raise self.error(f"The enum {enum.name} has no members.", enum.at)
        self.unique(((each.name, each.at) for each in enum.members), enum.name)

    def service(self, service: Service) -> None:
        if service.extends and not isinstance(self.find(service.extends), Service):
            raise self.error(f"The service {service.extends!r} is not defined.", service.at)
        self.unique(((each.name, each.at) for each in service.functions), service.name)
        for function in service.functions:
            if function.returns is not None:
                self.type(function.returns)
            self.fields(function.arguments, function.name)
            self.fields(function.throws, function.name)

    # Types.

    def find(self, name: str) -> Definition | None:
        prefix, _, rest = name.partition(".")
        if prefix in self.included and rest:
            return self.included[prefix].definition(rest)
        return self.names.get(name)

    def type(self, written: Written) -> Type:
        match written.name, written.arguments:
            case "list", (item,):
                return ListType(self.type(item))
            case "set", (item,):
                return SetType(self.type(item))
            case "map", (key, value):
                return MapType(self.type(key), self.type(value))
        if written.name in BASES:
            return BASES[written.name]
        return self.named(written)

    def named(self, written: Written) -> Type:
        prefix, _, rest = written.name.partition(".")
        if rest:
            linked = self.included.get(prefix)
            if linked is not None and rest in linked.types:
                return linked.types[rest]
        found = self.find(written.name)
        if isinstance(found, Struct | Enum | Typedef):
            return self.defined(found)
        if found is not None:
            raise self.error(f"{written.name!r} is not a type.", written.at)
        hint = "Define it, or include the file that does."
        if rest and prefix not in self.included:
            hint = f'Include "{prefix}.thrift", and name it in the references of this schema.'
        raise self.error(f"The type {written.name!r} is not defined.", written.at, hint)

    def defined(self, definition: Struct | Enum | Typedef) -> Type:
        if isinstance(definition, Struct):
            return StructType(definition)
        if isinstance(definition, Enum):
            return EnumType(definition)
        if definition.name in self.resolving:
            raise self.error(f"The type {definition.name!r} is defined by itself.", definition.at)
        self.resolving.append(definition.name)
        made = self.type(definition.written)
        self.resolving.pop()
        return made

    # Values.

    def value(self, value: Value, type: Type, at: int, depth: int = 0) -> Any:
        """The plain Python value of a constant or default. Raises ``InvalidSchema`` if it does not fit."""
        self.values += 1
        if depth > MAX_DEPTH:
            raise self.error("This value is defined by itself.", at)
        if self.values > MAX_VALUES:
            raise self.error(f"The constants hold more than {MAX_VALUES} values.", at)
        if isinstance(value, Name):
            return self.name(value, type, at, depth)
        match type:
            case Base():
                made = scalar(value, type)
            case EnumType():
                made = member(value, type.enum)
            case ListType() if isinstance(value, Items):
                return [self.value(each, type.item, at, depth + 1) for each in value.items]
            case SetType() if isinstance(value, Items):
                return [self.value(each, type.item, at, depth + 1) for each in value.items]
            case MapType() if isinstance(value, Pairs) or value == Items(()):
                return self.pairs(value, type, at, depth)
            case StructType() if isinstance(value, Pairs):
                return self.literal(value, type.struct, at, depth)
            case _:
                made = None
        if made is None:
            raise self.error("This value does not fit its type.", at)
        return made

    def name(self, name: Name, type: Type, at: int, depth: int) -> Any:
        owner, _, last = name.name.rpartition(".")
        enum = self.find(owner)
        if isinstance(enum, Enum):
            found = next((each for each in enum.members if each.name == last), None)
            if found is not None:
                return self.value(found.number, type, name.at or at, depth + 1)
        constants = self.included[owner].constants if owner in self.included else self.linked.constants
        if last not in constants or (owner and owner not in self.included):
            raise self.error(f"{name.name!r} is not a constant.", name.at or at)
        return self.value(constants[last][0], type, name.at or at, depth + 1)

    def pairs(self, value: Value, type: MapType, at: int, depth: int) -> dict[Any, Any]:
        found = value.pairs if isinstance(value, Pairs) else ()
        made = {}
        for key, each in found:
            plain = self.value(key, type.key, at, depth + 1)
            if isinstance(plain, list | dict):
                raise self.error("Such a key is not supported in a value.", at)
            made[plain] = self.value(each, type.value, at, depth + 1)
        return made

    def literal(self, value: Pairs, struct: Struct, at: int, depth: int) -> dict[str, Any]:
        fields = {each.name: each for each in struct.fields}
        made = {}
        for key, each in value.pairs:
            field = fields.get(key.text) if isinstance(key, Text) else None
            if field is None:
                raise self.error(f"{struct.name} has no such field.", at)
            made[field.name] = self.value(each, field.type, at, depth + 1)
        return made


def scalar(value: Value, type: Base) -> Any:
    """The value as this type has it; ``None`` if it does not fit."""
    if type in INTEGERS:
        half = 2 ** (INTEGERS[type] - 1)
        if not isinstance(value, int) or isinstance(value, bool):
            return None
        return value if -half <= value < half else None
    match type, value:
        case Base.BOOL, bool() | 0 | 1:
            return bool(value)
        case Base.DOUBLE, int() | float() if not isinstance(value, bool):
            return float(value)
        case Base.STRING, Text():
            return value.text
        case Base.BINARY, Text():
            return value.text.encode()
        case Base.UUID, Text():
            try:
                return UUID(value.text)
            except ValueError:
                return None
    return None


def member(value: Value, enum: Enum) -> str | int | None:
    """The name of the member with this number."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return next((each.name for each in enum.members if each.number == value), None)


def reserved_ids(struct: Struct) -> list[tuple[int, str]]:
    """The ids that a struct gave up, with the names they had. Raises ``ValueError``."""
    found = []
    for part in (struct.annotation(RESERVED) or "").split(","):
        if part.strip():
            id, _, name = part.strip().partition(" ")
            found.append((int(id), name.strip()))
    return found
