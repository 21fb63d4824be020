"""Lines of Python for one protocol: how each type is read from bytes and written to them.

Reading lines take the bytes ``b`` from the place ``p`` on, and leave ``p`` behind the value. Writing lines
append to the bytearray ``out``.
"""

from __future__ import annotations

from typing import Protocol

from dragoman.formats.thrift import wire
from dragoman.formats.thrift.model import INTEGERS, Base, Type
from dragoman.formats.thrift.schema import Protocol as Encoding

Lines = list[str]


class Emission(Protocol):
    """The parts in which the protocols differ."""

    def code(self, type: Type) -> int: ...

    def read_base(self, type: Base, target: str) -> Lines: ...

    def write_base(self, type: Base, value: str, name: str) -> Lines: ...

    def read_size(self, target: str) -> Lines:
        """The size of a string."""

    def read_header(self) -> Lines:
        """Of a field: leaves its type in ``t`` and its id in ``i``, or breaks out of the loop."""

    def fits(self, type: Type) -> str:
        """A condition that ``t`` is this type."""

    def skip(self) -> str: ...

    def read_bool_field(self, target: str) -> Lines: ...

    def read_parts(self, size: str, codes: str, types: tuple[Type, ...], name: str) -> Lines:
        """The head of a container of one type, or of two for a map."""

    def write_parts(self, size: str, types: tuple[Type, ...]) -> Lines: ...

    def header(self, type: Type, id: int, last: int) -> bytes:
        """The bytes before a field when the one before it had the id ``last``."""

    def write_bool_field(self, value: str, headers: tuple[str, str]) -> Lines: ...


_RUNTIME = """
    read_i16 read_i32 read_i64 read_big_double read_little_double
    pack_i8 pack_i16 pack_i32 pack_i64 pack_big_double pack_little_double
    truncated wrong_part too_deep missing no_choice unwritten out_of_range
    unsigned zigzag put_unsigned raw put_bool listed ordered skip_compact skip_binary positive
"""
RUNTIME = {name: getattr(wire, name) for name in _RUNTIME.split()}
"""What the lines call."""


def emission(encoding: Encoding) -> Emission:
    return Compact() if encoding is Encoding.COMPACT else Binary()


class Compact:
    def code(self, type: Type) -> int:
        return wire.compact_code(type)

    def read_base(self, type: Base, target: str) -> Lines:
        if type is Base.BOOL:
            return [f"{target} = b[p] == 1", "p += 1"]
        if type is Base.BYTE:
            return [f"{target} = b[p]", "p += 1", f"if {target} > 127: {target} -= 256"]
        if type in INTEGERS:
            return [
                "n = b[p]",
                "if n < 128:",
                f"    {target} = (n >> 1) ^ -(n & 1)",
                "    p += 1",
                "else:",
                f"    {target}, p = zigzag(b, p, {INTEGERS[type]})",
            ]
        if type is Base.DOUBLE:
            return [f"{target} = read_little_double(b, p)[0]", "p += 8"]
        return _read_sized(self, type, target)

    def write_base(self, type: Base, value: str, name: str) -> Lines:
        if type is Base.BOOL:
            return [f"out.append(1 if put_bool({value}) else 2)"]
        if type is Base.BYTE:
            return [f"out += pack_i8({value})"]
        if type in INTEGERS:
            bits = INTEGERS[type]
            limit = 2 ** (bits - 1)
            return [
                f"n = {value}",
                f"if not {-limit} <= n < {limit}: out_of_range({bits}, {name!r})",
                f"n = (n << 1) ^ (n >> {bits - 1})",
                "if n < 128: out.append(n)",
                "else: put_unsigned(out, n)",
            ]
        if type is Base.DOUBLE:
            return [f"out += pack_little_double({value})"]
        if type is Base.UUID:
            return [f"out += {value}.bytes"]
        return [
            *_sized(type, value),
            "n = len(s)",
            "if n < 128: out.append(n)",
            "else: put_unsigned(out, n)",
            "out += s",
        ]

    def read_size(self, target: str) -> Lines:
        return [f"{target} = b[p]", "p += 1", f"if {target} > 127: {target}, p = unsigned(b, p - 1)"]

    def read_header(self) -> Lines:
        return [
            "h = b[p]",
            "p += 1",
            "t = h & 15",
            "if not t: break",
            "if h > 15: i += h >> 4",
            "else: i, p = zigzag(b, p, 16)",
        ]

    def fits(self, type: Type) -> str:
        return "t < 3" if type is Base.BOOL else f"t == {self.code(type)}"

    def skip(self) -> str:
        return "p = skip_compact(b, p, t, d)"

    def read_bool_field(self, target: str) -> Lines:
        return [f"{target} = t == 1"]

    def read_parts(self, size: str, codes: str, types: tuple[Type, ...], name: str) -> Lines:
        if len(types) == 1:
            lines = [
                f"{codes} = b[p]",
                "p += 1",
                f"{size} = {codes} >> 4",
                f"if {size} == 15: {size}, p = unsigned(b, p)",
                f"if {size} > len(b) - p: truncated()",
            ]
            return [*lines, f"if {size} and {self._differs(f'{codes} & 15', types[0])}: wrong_part({name!r})"]
        lines = [f"{size}, p = unsigned(b, p)", f"if {size} > len(b) - p: truncated()", f"if {size}:"]
        key, value = (
            self._differs(part, type)
            for part, type in zip((f"{codes} >> 4", f"{codes} & 15"), types, strict=True)
        )
        return [*lines, f"    {codes} = b[p]", "    p += 1", f"    if {key} or {value}: wrong_part({name!r})"]

    def _differs(self, part: str, type: Type) -> str:
        return f"({part}) not in (1, 2)" if type is Base.BOOL else f"({part}) != {self.code(type)}"

    def write_parts(self, size: str, types: tuple[Type, ...]) -> Lines:
        codes = [self.code(type) for type in types]
        if len(types) == 1:
            return [
                f"if {size} < 15: out.append({size} << 4 | {codes[0]})",
                f"else: out.append({0xF0 | codes[0]}); put_unsigned(out, {size})",
            ]
        return [f"put_unsigned(out, {size})", f"if {size}: out.append({codes[0] << 4 | codes[1]})"]

    def header(self, type: Type, id: int, last: int) -> bytes:
        return compact_header(self.code(type), id, last)

    def write_bool_field(self, value: str, headers: tuple[str, str]) -> Lines:
        return [f"out += {headers[0]}[l] if put_bool({value}) else {headers[1]}[l]"]


def compact_header(code: int, id: int, last: int) -> bytes:
    if 0 < id - last < 16:
        return bytes(((id - last) << 4 | code,))
    out = bytearray((code,))
    wire.put_unsigned(out, id << 1)
    return bytes(out)


class Binary:
    def code(self, type: Type) -> int:
        return wire.binary_code(type)

    def read_base(self, type: Base, target: str) -> Lines:
        if type is Base.BOOL:
            return [f"{target} = b[p] != 0", "p += 1"]
        if type is Base.BYTE:
            return [f"{target} = b[p]", "p += 1", f"if {target} > 127: {target} -= 256"]
        if type in INTEGERS:
            bits = INTEGERS[type]
            return [f"{target} = read_i{bits}(b, p)[0]", f"p += {bits // 8}"]
        if type is Base.DOUBLE:
            return [f"{target} = read_big_double(b, p)[0]", "p += 8"]
        return _read_sized(self, type, target)

    def write_base(self, type: Base, value: str, name: str) -> Lines:
        if type is Base.BOOL:
            return [f"out.append(1 if put_bool({value}) else 0)"]
        if type in INTEGERS:
            return [f"out += pack_i{INTEGERS[type]}({value})"]
        if type is Base.DOUBLE:
            return [f"out += pack_big_double({value})"]
        if type is Base.UUID:
            return [f"out += {value}.bytes"]
        return [*_sized(type, value), "out += pack_i32(len(s))", "out += s"]

    def read_size(self, target: str) -> Lines:
        return [f"{target} = read_i32(b, p)[0]", "p += 4", f"if {target} < 0: truncated()"]

    def read_header(self) -> Lines:
        return ["t = b[p]", "if not t: p += 1; break", "i = read_i16(b, p + 1)[0]", "p += 3"]

    def fits(self, type: Type) -> str:
        return f"t == {self.code(type)}"

    def skip(self) -> str:
        return "p = skip_binary(b, p, t, d)"

    def read_bool_field(self, target: str) -> Lines:
        return self.read_base(Base.BOOL, target)

    def read_parts(self, size: str, codes: str, types: tuple[Type, ...], name: str) -> Lines:
        count = len(types)
        lines = [f"{size} = positive(read_i32(b, p + {count})[0], b, p)"]
        wrong = " or ".join(f"b[p + {at}] != {self.code(type)}" for at, type in enumerate(types))
        return [*lines, f"if {size} and ({wrong}): wrong_part({name!r})", f"p += {count + 4}"]

    def write_parts(self, size: str, types: tuple[Type, ...]) -> Lines:
        lines = [f"out.append({self.code(type)})" for type in types]
        return [*lines, f"out += pack_i32({size})"]

    def header(self, type: Type, id: int, last: int) -> bytes:
        return bytes((self.code(type),)) + wire.pack_i16(id)

    def write_bool_field(self, value: str, headers: tuple[str, str]) -> Lines:
        return [f"out += {headers[0]}[l]", *self.write_base(Base.BOOL, value, "")]


def _read_sized(emission: Emission, type: Base, target: str) -> Lines:
    if type is Base.UUID:
        return ["if p + 16 > len(b): truncated()", f"{target} = UUID(bytes=b[p:p + 16])", "p += 16"]
    decode = ".decode()" if type is Base.STRING else ""
    return [
        *emission.read_size("n"),
        "e = p + n",
        "if e > len(b): truncated()",
        f"{target} = b[p:e]{decode}",
        "p = e",
    ]


def _sized(type: Base, value: str) -> Lines:
    return [f"s = {value}.encode()"] if type is Base.STRING else [f"s = raw({value})"]
