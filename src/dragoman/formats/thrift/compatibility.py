"""Whether a reader's schema reads a writer's data: fields are compared by id, types by how they are encoded.

Thrift readers pass over ids they do not know and fields of another type; so a changed type loses data without
a word, and is refused here. An id belongs to its field for ever: under another name it is taken for reuse,
unless one of the two says ``(dragoman.was = "old name")``.
"""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.core.contract import Incompatibility
from dragoman.core.format import Policy
from dragoman.formats.thrift.counterexample import example
from dragoman.formats.thrift.link import reserved_ids
from dragoman.formats.thrift.model import (
    Base,
    EnumType,
    Field,
    ListType,
    MapType,
    Requiredness,
    SetType,
    Struct,
    StructType,
    Type,
)
from dragoman.formats.thrift.printer import type_text
from dragoman.formats.thrift.schema import ThriftSchema

WAS = "dragoman.was"
"""An annotation of a field: the name it had before."""

_LENIENT = frozenset({"ROOT_CHANGED", "PROTOCOL_CHANGED", "FIELD_ID_REUSED", "ENUM_VALUE_REMOVED"})
"""These leave the bytes readable for our readers; ``LENIENT`` accepts them."""


def incompatibilities(
    reader: ThriftSchema, writer: ThriftSchema, policy: Policy
) -> tuple[Incompatibility, ...]:
    """Every reason why the reader cannot read the writer's root struct."""
    ignored = _LENIENT if policy is Policy.LENIENT else frozenset[str]()
    return tuple(reason for reason in _reasons(reader, writer, policy) if reason.rule not in ignored)


def unreadable(reads: Struct, written: Struct, policy: Policy) -> tuple[Incompatibility, ...]:
    """Why one struct cannot be read as another."""
    found = _Comparison(policy).structs(reads, written)
    return tuple(reason for reason in found if reason.rule not in _LENIENT)


def _reasons(reader: ThriftSchema, writer: ThriftSchema, policy: Policy) -> Iterator[Incompatibility]:
    reads, written = reader.root, writer.root
    if written is None:
        return
    if reads is None:
        yield Incompatibility("ROOT_CHANGED", f"The reader has no struct for {written.name}.", "#/", "#/")
        return
    if reads.name != written.name:
        yield Incompatibility(
            "ROOT_CHANGED",
            f"Messages hold {written.name}, and would hold {reads.name}. Was a struct added at the end?"
            ' Mark the root with (dragoman.root = "true").',
            f"#/{reads.name}",
            f"#/{written.name}",
        )
    if reader.protocol is not writer.protocol:
        what = f"The protocol is {reader.protocol.value} instead of {writer.protocol.value}."
        yield Incompatibility("PROTOCOL_CHANGED", what, f"#/{reads.name}", f"#/{written.name}")
    yield from _Comparison(policy).structs(reads, written)


class _Comparison:
    def __init__(self, policy: Policy) -> None:
        self.exact = policy is Policy.EXACT
        self.lenient = policy is Policy.LENIENT

    def structs(self, reads: Struct, written: Struct) -> Iterator[Incompatibility]:
        """The two structs, and those that their fields hold."""
        waiting = [(reads, written)]
        seen: set[tuple[int, int]] = set()
        while waiting:
            pair = waiting.pop()
            key = (id(pair[0]), id(pair[1]))
            if key not in seen:
                seen.add(key)
                yield from self.struct(*pair)
                waiting += _inner(*pair)

    def struct(self, reads: Struct, written: Struct) -> Iterator[Incompatibility]:
        here, there = f"#/{reads.name}", f"#/{written.name}"
        if reads.kind == "union" and written.kind != "union":
            what = f"{reads.name} is a union, and {written.name} may have several fields set."
            yield Incompatibility("STRUCT_KIND_CHANGED", what, here, there, example(written))
        elif self.exact and (reads.kind == "union") != (written.kind == "union"):
            yield Incompatibility("STRUCT_KIND_CHANGED", f"{written.name} is no longer a union.", here, there)
        known = reads.by_id
        for field in written.fields:
            if field.id in known:
                yield from self.field(known[field.id], field, reads, written)
            elif reads.kind == "union":
                what = f"The union {reads.name} has no field {field.id}, so {field.name!r} cannot be read."
                yield Incompatibility(
                    "UNION_FIELD_REMOVED", what, here, f"{there}/{field.id}", example(written, field)
                )
        yield from self.required(reads, written)
        yield from self.reserved(reads, written)

    def required(self, reads: Struct, written: Struct) -> Iterator[Incompatibility]:
        given = written.by_id
        for field in reads.fields:
            other = given.get(field.id)
            sure = other is not None and other.requiredness is Requiredness.REQUIRED
            if field.requiredness is Requiredness.REQUIRED and field.default is None and not sure:
                rule = "REQUIRED_FIELD_ADDED"
                what = f"The reader requires the field {field.name!r}, which the writer may leave out."
                yield Incompatibility(
                    rule, what, f"#/{reads.name}/{field.id}", f"#/{written.name}", example(written)
                )

    def reserved(self, reads: Struct, written: Struct) -> Iterator[Incompatibility]:
        fields = reads.by_id
        for id, name in reserved_ids(written):
            field = fields.get(id)
            if field is not None and field.name != name and (name or self.exact):
                what = f"The field {field.name!r} uses the id {id}, which the writer reserves."
                yield Incompatibility("FIELD_ID_REUSED", what, f"#/{reads.name}/{id}", f"#/{written.name}")

    def field(
        self, reads: Field, written: Field, reads_in: Struct, written_in: Struct
    ) -> Iterator[Incompatibility]:
        here, there = f"#/{reads_in.name}/{reads.id}", f"#/{written_in.name}/{written.id}"
        if reads.name != written.name and WAS not in _renames(reads, written):
            what = f"The id {written.id} was given to {written.name!r}, and is now of {reads.name!r}."
            hint = f' If it is a new name for the same field, say so: ({WAS} = "{written.name}").'
            yield Incompatibility("FIELD_ID_REUSED", what + hint, here, there)
        for rule, what, value in self.types(reads.type, written.type):
            shown = example(written_in, written, value)
            yield Incompatibility(rule, f"{written.name!r}: {what}", here, there, shown)

    def types(self, reads: Type, written: Type) -> Iterator[tuple[str, str, object]]:
        """A rule, what it says, and a value that shows it."""
        match reads, written:
            case ListType(item), ListType(other):
                yield from self.types(item, other)
            case SetType(item), SetType(other):
                yield from self.types(item, other)
            case MapType(), MapType():
                yield from self.types(reads.key, written.key)
                yield from self.types(reads.value, written.value)
            case StructType(), StructType():
                return
            case EnumType(), EnumType():
                known = {each.number for each in reads.enum.members}
                gone = next((each.name for each in written.enum.members if each.number not in known), None)
                if gone is not None:
                    yield "ENUM_VALUE_REMOVED", f"the reader has no number for {gone}.", gone
            case EnumType(), Base.I32:
                if self.exact:
                    yield "FIELD_VALUES_NARROWED", f"{reads.enum.name} has no name for every i32.", 2**31 - 1
            case Base.I32, EnumType():
                return
            case Base.STRING, Base.BINARY:
                if not self.lenient:
                    yield "FIELD_VALUES_NARROWED", "not all bytes are a string.", b"\xff"
            case Base.BINARY, Base.STRING:
                return
            case _ if reads != written:
                yield "FIELD_TYPE_CHANGED", f"{type_text(reads)} cannot read {type_text(written)}.", None


def _renames(reads: Field, written: Field) -> tuple[str, ...]:
    """The annotation's name if one of the fields says that it was called like the other."""
    told = reads.annotation(WAS) == written.name or written.annotation(WAS) == reads.name
    return (WAS,) if told else ()


def _inner(reads: Struct, written: Struct) -> Iterator[tuple[Struct, Struct]]:
    known = reads.by_id
    for field in written.fields:
        if field.id in known:
            yield from _pairs(known[field.id].type, field.type)


def _pairs(reads: Type, written: Type) -> Iterator[tuple[Struct, Struct]]:
    match reads, written:
        case StructType(), StructType():
            yield reads.struct, written.struct
        case ListType(item), ListType(other):
            yield from _pairs(item, other)
        case SetType(item), SetType(other):
            yield from _pairs(item, other)
        case MapType(), MapType():
            yield from _pairs(reads.key, written.key)
            yield from _pairs(reads.value, written.value)
