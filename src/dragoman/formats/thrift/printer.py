"""The canonical Thrift text of a document: one layout, no comments.

With ``order`` also the parts whose order means nothing are sorted. Definitions keep theirs, since the last
struct is the root. With ``wire`` only what decides about the bytes is left.
"""

from __future__ import annotations

from dragoman.formats.thrift.lexer import quote
from dragoman.formats.thrift.model import (
    Annotations,
    Base,
    Const,
    Definition,
    Document,
    Enum,
    EnumType,
    Field,
    Items,
    ListType,
    MapType,
    Name,
    Pairs,
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

WIRE_ANNOTATIONS = frozenset({"dragoman.root", "dragoman.protocol"})

Lines = list[str]


def print_document(document: Document, *, order: bool = False, wire: bool = False) -> str:
    return _Printer(order, wire).text(document)


class _Printer:
    def __init__(self, order: bool, wire: bool) -> None:
        self.order = order
        self.wire = wire

    def text(self, document: Document) -> str:
        includes = [f"include {quote(each.path)}" for each in document.includes]
        spaces = [
            f"namespace {each.scope} {each.name}{self.annotations(each.annotations)}"
            for each in document.namespaces
        ]
        parts: list[Lines] = []
        if not self.wire:
            parts = [sorted(includes), sorted(spaces)] if self.order else [includes, spaces]
        kinds = (Enum, Struct) if self.wire else (Enum, Struct, Typedef, Const, Service)
        parts += (self.definition(each) for each in document.definitions if isinstance(each, kinds))
        return "\n\n".join("\n".join(part) for part in parts if part) + "\n"

    def definition(self, definition: Definition) -> Lines:
        notes = self.annotations(definition.annotations)
        match definition:
            case Struct():
                fields = definition.fields
                ordered = sorted(fields, key=lambda each: each.id) if self.order else fields
                lines = [f"  {self.field(each)}" for each in ordered]
                return [f"{definition.kind} {definition.name} {{", *lines, "}" + notes]
            case Enum():
                members = definition.members
                ordered_members = sorted(members, key=lambda each: each.number) if self.order else members
                lines = [
                    f"  {each.name} = {each.number}{self.annotations(each.annotations)}"
                    for each in ordered_members
                ]
                return [f"enum {definition.name} {{", *lines, "}" + notes]
            case Typedef():
                return [f"typedef {self.written(definition.written)} {definition.name}{notes}"]
            case Const():
                value = self.value(definition.value)
                return [f"const {self.written(definition.written)} {definition.name} = {value}{notes}"]
            case Service():
                return self.service(definition)

    def field(self, field: Field) -> str:
        requiredness = f"{field.requiredness.value} " if field.requiredness.value else ""
        default = f" = {self.value(field.default)}" if field.default is not None else ""
        type = type_text(field.type) if self.wire else self.written(field.written)
        return f"{field.id}: {requiredness}{type} {field.name}{default}{self.annotations(field.annotations)}"

    def service(self, service: Service) -> Lines:
        lines = []
        functions = service.functions
        for each in sorted(functions, key=lambda each: each.name) if self.order else functions:
            oneway = "oneway " if each.oneway else ""
            returns = self.written(each.returns) if each.returns is not None else "void"
            arguments = ", ".join(map(self.field, each.arguments))
            throws = f" throws ({', '.join(map(self.field, each.throws))})" if each.throws else ""
            notes = self.annotations(each.annotations)
            lines.append(f"  {oneway}{returns} {each.name}({arguments}){throws}{notes}")
        extends = f" extends {service.extends}" if service.extends else ""
        head = f"service {service.name}{extends} {{"
        return [head, *lines, "}" + self.annotations(service.annotations)]

    def written(self, written: Written) -> str:
        inner = f"<{', '.join(map(self.written, written.arguments))}>" if written.arguments else ""
        return f"{written.name}{inner}{self.annotations(written.annotations)}"

    def value(self, value: Value) -> str:
        match value:
            case bool():
                return "true" if value else "false"
            case int():
                return str(value)
            case float():
                return double_text(value)
            case Text():
                return quote(value.text)
            case Name():
                return value.name
            case Items():
                return f"[{', '.join(map(self.value, value.items))}]"
            case Pairs():
                pairs = (f"{self.value(key)}: {self.value(each)}" for key, each in value.pairs)
                return f"{{{', '.join(pairs)}}}"

    def annotations(self, annotations: Annotations) -> str:
        if self.wire:
            annotations = tuple(each for each in annotations if each[0] in WIRE_ANNOTATIONS)
        if not annotations:
            return ""
        ordered = sorted(annotations) if self.order else annotations
        return f" ({', '.join(f'{name} = {quote(value)}' for name, value in ordered)})"


def double_text(value: float) -> str:
    text = repr(value)
    return text if "." in text or "e" in text else text + ".0"


def type_text(type: Type) -> str:
    """A type without the typedefs in between."""
    match type:
        case Base():
            return type.value
        case ListType():
            return f"list<{type_text(type.item)}>"
        case SetType():
            return f"set<{type_text(type.item)}>"
        case MapType():
            return f"map<{type_text(type.key)}, {type_text(type.value)}>"
        case EnumType():
            return type.enum.name
        case StructType():
            return type.struct.name
