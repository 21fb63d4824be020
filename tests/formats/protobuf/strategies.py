"""Random Protobuf files, changes to them, and values that fit them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st

from dragoman.formats.protobuf.shape import is_map, map_parts, oneofs_of

SCALARS = (
    "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64",
    "sfixed32", "sfixed64", "bool", "string", "bytes", "float", "double",
)  # fmt: skip
KEYS = tuple(each for each in SCALARS if each not in ("float", "double", "bytes"))
NAMED = ("Color", "Part", "Whole", "Part.Inner")


@dataclass(frozen=True)
class Member:
    number: int
    type: str
    label: str = ""
    key: str = ""
    choice: bool = False

    @property
    def text(self) -> str:
        if self.key:
            return f"map<{self.key}, {self.type}> f{self.number} = {self.number};"
        label = f"{self.label} " if self.label else ""
        return f"{label}{self.type} f{self.number} = {self.number};"


@dataclass(frozen=True)
class Proto:
    """A file of two messages, an enum and a nested message. ``part`` and ``whole`` are their fields."""

    whole: tuple[Member, ...]
    part: tuple[Member, ...]
    colors: tuple[int, ...]

    @property
    def text(self) -> str:
        values = " ".join(f"C{number} = {number};" for number in self.colors)
        inner = "message Inner { int32 depth = 1; }"
        return (
            'syntax = "proto3"; package shop;\n'
            f"message Whole {{ {body(self.whole)} }}\n"
            f"message Part {{ {inner} {body(self.part)} }}\n"
            f"enum Color {{ {values} }}\n"
        )


def body(members: tuple[Member, ...]) -> str:
    alone = " ".join(member.text for member in members if not member.choice)
    chosen = " ".join(member.text for member in members if member.choice)
    return alone + (f" oneof choice {{ {chosen} }}" if chosen else "")


types = st.sampled_from((*SCALARS, *NAMED))


@st.composite
def members(draw: st.DrawFn, number: int) -> Member:
    kind = draw(st.sampled_from(("plain", "optional", "repeated", "map", "choice")))
    type = draw(types)
    if kind == "map":
        return Member(number, type, key=draw(st.sampled_from(KEYS)))
    if kind == "choice":
        return Member(number, type, choice=True)
    return Member(number, type, label="" if kind == "plain" else kind)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[Member, ...]:
    numbers = draw(st.lists(st.integers(1, 12), max_size=6, unique=True))
    return tuple(draw(members(number)) for number in numbers)


colors = st.lists(st.integers(1, 5), max_size=4, unique=True).map(lambda found: (0, *found))
protos = st.builds(Proto, bodies(), bodies(), colors)


@st.composite
def changed(draw: st.DrawFn, proto: Proto) -> Proto:
    """The same file after a few edits."""
    for _ in range(draw(st.integers(0, 3))):
        side = draw(st.sampled_from(("whole", "part")))
        found = list(getattr(proto, side))
        edit = draw(st.sampled_from(("drop", "add", "type", "label", "colors")))
        if edit == "colors":
            proto = replace(proto, colors=draw(colors))
        elif edit == "add":
            free = [number for number in range(1, 14) if all(each.number != number for each in found)]
            found.append(draw(members(draw(st.sampled_from(free)))))
        elif found:
            index = draw(st.integers(0, len(found) - 1))
            if edit == "drop":
                del found[index]
            elif edit == "type":
                found[index] = replace(found[index], type=draw(types))
            else:
                found[index] = draw(members(found[index].number))
        proto = replace(proto, **{side: tuple(found)}) if edit != "colors" else proto
    return proto


pairs = protos.flatmap(lambda proto: st.tuples(st.just(proto), changed(proto)))

_TEXT = st.text(st.characters(codec="utf-8"), max_size=5)


def scalar(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    kind = field.type
    if field.enum_type is not None:
        return st.sampled_from([value.name for value in field.enum_type.values])
    if kind == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    if kind == FieldDescriptor.TYPE_STRING:
        return _TEXT
    if kind == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=5)
    if kind == FieldDescriptor.TYPE_FLOAT:
        return st.floats(width=32, allow_nan=False)
    if kind == FieldDescriptor.TYPE_DOUBLE:
        return st.floats(allow_nan=False)
    half = (
        2**31 if field.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32) else 2**63
    )
    unsigned = field.cpp_type in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)
    return st.integers(0, 2 * half - 1) if unsigned else st.integers(-half, half - 1)


@st.composite
def values(draw: st.DrawFn, message: Descriptor, depth: int = 0) -> dict[str, Any]:
    """A plain value with every field of the message, as decoding gives it."""
    picks: dict[str, bool] = {}
    for oneof in oneofs_of(message):
        names = [field.name for field in oneof.fields]
        chosen = draw(st.sampled_from([None, *names]))
        picks |= {name: name == chosen for name in names}
    made: dict[str, Any] = {}
    for field in message.fields:
        if is_map(field):
            key, value = map_parts(field)
            size = 0 if depth > 2 else 2
            made[field.name] = draw(st.dictionaries(scalar(key), single(value, depth), max_size=size))
        elif field.is_repeated:
            made[field.name] = draw(st.lists(single(field, depth), max_size=0 if depth > 2 else 2))
        elif field.name in picks:
            deep = field.message_type is not None and depth > 2
            made[field.name] = draw(single(field, depth)) if picks[field.name] and not deep else None
        elif field.has_presence:
            absent = depth > 2 or draw(st.booleans())
            made[field.name] = None if absent else draw(single(field, depth))
        else:
            made[field.name] = draw(scalar(field))
    return made


def single(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    return scalar(field) if field.message_type is None else values(field.message_type, depth + 1)
