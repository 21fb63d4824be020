"""What compiled reading and writing share: a function per struct and class, and what fits a field."""

from __future__ import annotations

from abc import ABC, abstractmethod

from dragoman.formats.thrift.binding import unfit
from dragoman.formats.thrift.conversions import conversion
from dragoman.formats.thrift.emission import RUNTIME, Emission, Lines
from dragoman.formats.thrift.model import Base, MapType, Struct, Type
from dragoman.schema import types as neutral
from dragoman.schema.binding import Conversion
from dragoman.schema.compiling import Compilation
from dragoman.schema.constraining import checker
from dragoman.schema.types import RecordType, UnionType

Shape = RecordType | UnionType | None
"""What stands for a struct in Python: an instance, the branch of a union, or a dict."""


class Compiler(ABC):
    parameters: str
    """Of the functions."""

    def __init__(self, emission: Emission) -> None:
        self.emission = emission
        self.code = Compilation()
        self.code.scope.update(RUNTIME)
        self.names: dict[tuple[int, int], str] = {}
        self.count = 0
        self.kept: list[Shape] = []

    @abstractmethod
    def body(self, struct: Struct, shape: Shape) -> Lines:
        """The lines of the function for a struct."""

    def function(self, struct: Struct, shape: Shape) -> str:
        """The name of the function for a struct, which is made if it is new."""
        key = (id(struct), id(shape))
        if key not in self.names:
            # Kept alive, so that no other shape gets its identity.
            self.kept.append(shape)
            name = self.names[key] = f"convert{len(self.names)}"
            head = f"def {name}({self.parameters}):"
            self.code.add("\n".join([head, *indented(self.body(struct, shape))]))
        return self.names[key]

    def locals(self, letters: str) -> list[str]:
        """Names for values that no other part of the function uses."""
        self.count += 1
        return [f"{letter}{self.count}" for letter in letters]

    def checked(self, wanted: neutral.Type | None, value: str, name: str) -> Lines:
        constraints = getattr(wanted, "constraints", ())
        return [f"{self.code.bind(checker(name, constraints), 'check')}({value})"] if constraints else []

    # What a part of the class is for a part of the schema. Each raises ``IncompatibleSchema``.

    def conversion(self, type: Type, wanted: neutral.Type, name: str, owner: RecordType | None) -> Conversion:
        how = conversion(wanted, type)
        if how is None:
            raise unfit(owner, name, "does not fit its type in the schema")
        return how

    def shape(
        self, struct: Struct, wanted: neutral.Type | None, name: str, owner: RecordType | None
    ) -> Shape:
        if wanted is None or isinstance(wanted, RecordType | UnionType):
            return wanted
        raise unfit(owner, name, f"cannot hold a {struct.name}")

    def items(self, wanted: neutral.Type | None, name: str, owner: RecordType | None) -> neutral.Type | None:
        if wanted is None:
            return None
        if not isinstance(wanted, neutral.ArrayType):
            raise unfit(owner, name, "is not a list in the class")
        return wanted.items

    def values(
        self, type: MapType, wanted: neutral.Type | None, name: str, owner: RecordType | None
    ) -> neutral.Type | None:
        if wanted is None:
            return None
        if not isinstance(wanted, neutral.MapType) or type.key is not Base.STRING:
            raise unfit(owner, name, "is not a map from strings in the class and the schema")
        return wanted.values


def indented(lines: Lines) -> Lines:
    return ["    " + line for line in lines]
