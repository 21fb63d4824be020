"""From a Thrift text to a document: the grammar, without any look at what names mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dragoman.core.errors import InvalidSchema
from dragoman.formats.thrift.lexer import TOKEN, unquote
from dragoman.formats.thrift.model import (
    Annotations,
    Base,
    Const,
    Document,
    Enum,
    EnumMember,
    Field,
    Function,
    Include,
    Items,
    Name,
    Namespace,
    Pairs,
    Requiredness,
    Service,
    Struct,
    Text,
    Typedef,
    Value,
    Written,
)
from dragoman.schema.scanning import Source, Token

MAX_DEPTH = 32
_LONGEST_NUMBER = 40
BASES = {**{each.value: each for each in Base}, "byte": Base.BYTE}
_CONTAINERS = {"list": 1, "set": 1, "map": 2}
_UNSUPPORTED = {"slist": "string", "senum": "enum"}
_RESERVED = frozenset(
    {*BASES, *_CONTAINERS, "struct", "union", "exception", "enum", "typedef", "const", "service", "include"}
    | {"namespace", "required", "optional", "void", "oneway", "throws", "extends", "true", "false"}
)

T = TypeVar("T")


def parse_text(text: str) -> tuple[Document, Source]:
    """Raises ``InvalidSchema`` with line and column at the first thing that is not Thrift."""
    source = Source(text)
    return _Parser(source).document(), source


class _Parser:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = source.tokens(TOKEN)
        self.index = 0
        self.depth = 0

    # The cursor.

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def take(self) -> Token:
        token = self.tokens[self.index]
        if token.kind != "end":
            self.index += 1
        return token

    def error(self, what: str, at: int | None = None, next: str = "") -> InvalidSchema:
        return self.source.error(what, self.token.at if at is None else at, next)

    def expected(self, what: str) -> InvalidSchema:
        found = repr(self.token.text) if self.token.kind != "end" else "the end of the text"
        return self.error(f"Expected {what}, found {found}.")

    def looking_at(self, text: str) -> bool:
        return self.token.text == text and self.token.kind != "string"

    def try_take(self, text: str) -> bool:
        if self.looking_at(text):
            self.index += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        if not self.looking_at(text):
            raise self.expected(repr(text))
        return self.take()

    def separator(self) -> None:
        if self.token.text in (",", ";") and self.token.kind == "mark":
            self.index += 1

    def name(self, what: str) -> Token:
        """A name of something that is defined here: no dots, no word of the language."""
        token = self.dotted(what)
        if "." in token.text or token.text in _RESERVED:
            raise self.error(f"{token.text!r} cannot be {what}.", token.at)
        return token

    def dotted(self, what: str) -> Token:
        if self.token.kind != "word":
            raise self.expected(what)
        return self.take()

    def string(self) -> str:
        if self.token.kind != "string":
            raise self.expected("a string in quotes")
        token = self.take()
        try:
            return unquote(token.text)
        except ValueError as error:
            raise self.error(str(error), token.at) from None

    def integer(self, what: str, bits: int) -> int:
        if self.token.kind != "int":
            raise self.expected(what)
        token = self.take()
        value = whole(token.text)
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise self.error(f"{value} does not fit {bits} bits.", token.at)
        return value

    def until(self, close: str, part: Callable[[], T]) -> list[T]:
        """Parts up to a closing mark, each with an optional separator."""
        found: list[T] = []
        opened = self.tokens[self.index - 1]
        while not self.try_take(close):
            if self.token.kind == "end":
                raise self.error(f"This {opened.text!r} is never closed.", opened.at)
            found.append(part())
            self.separator()
        return found

    def nested(self, part: Callable[[], T]) -> T:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"Nested more than {MAX_DEPTH} levels deep.")
        made = part()
        self.depth -= 1
        return made

    # The document.

    def document(self) -> Document:
        document = Document()
        while self.token.kind != "end":
            match self.token.text:
                case "include":
                    at = self.take().at
                    document.includes.append(Include(self.string(), at))
                case "cpp_include":
                    self.take()
                    self.string()
                case "namespace":
                    document.namespaces.append(self.namespace())
                case _:
                    self.definition(document)
            self.separator()
        return document

    def namespace(self) -> Namespace:
        self.take()
        scope = "*" if self.try_take("*") else self.dotted("a language or '*'").text
        name = self.string() if self.token.kind == "string" else self.dotted("a namespace").text
        return Namespace(scope, name, self.annotations())

    def definition(self, document: Document) -> None:
        kind = self.token.text
        at = self.token.at
        match kind:
            case "struct" | "union" | "exception":
                self.take()
                document.definitions.append(self.struct(kind))
            case "enum":
                self.take()
                document.definitions.append(self.enum())
            case "typedef":
                self.take()
                written, name = self.type(), self.name("the name of a type")
                document.definitions.append(Typedef(name.text, written, self.annotations(), name.at))
            case "const":
                self.take()
                written, name = self.type(), self.name("the name of a constant")
                self.expect("=")
                value = self.value()
                document.definitions.append(Const(name.text, written, value, self.annotations(), name.at))
            case "service":
                self.take()
                document.definitions.append(self.service())
            case _ if kind in _UNSUPPORTED:
                raise self.error(f"{kind!r} is long out of use.", at, f"Use {_UNSUPPORTED[kind]!r} instead.")
            case _:
                raise self.expected(
                    "struct, union, exception, enum, typedef, const, service, include or namespace"
                )

    def struct(self, kind: str) -> Struct:
        name = self.name(f"the name of a {kind}")
        self.expect("{")
        fields = self.until("}", self.field)
        return Struct(kind, name.text, fields, self.annotations(), name.at)

    def field(self) -> Field:
        at = self.token.at
        if self.token.kind != "int":
            raise self.error(
                "This field has no id.", at, "Write one before it, such as '1:'; ids must never change."
            )
        id = self.integer("the id of a field", 16)
        if id < 1:
            raise self.error(f"The id {id} is not positive.", at, "Use 1 to 32767.")
        self.expect(":")
        requiredness = Requiredness.DEFAULT
        if self.token.text in ("required", "optional"):
            requiredness = Requiredness(self.take().text)
        written = self.type()
        self.try_take("&")
        name = self.name("the name of a field")
        default = self.value() if self.try_take("=") else None
        return Field(id, name.text, requiredness, written, default, self.annotations(), at)

    def enum(self) -> Enum:
        name = self.name("the name of an enum")
        self.expect("{")
        members: list[EnumMember] = []

        def member() -> EnumMember:
            found = self.name("the name of an enum's member")
            number = members[-1].number + 1 if members else 0
            if self.try_take("="):
                number = self.integer("a number", 32)
            elif number > 2**31 - 1:
                raise self.error("There is no number left for this member.", found.at)
            members.append(EnumMember(found.text, number, self.annotations(), found.at))
            return members[-1]

        self.until("}", member)
        return Enum(name.text, members, self.annotations(), name.at)

    def service(self) -> Service:
        name = self.name("the name of a service")
        extends = self.dotted("the name of a service").text if self.try_take("extends") else ""
        self.expect("{")
        functions = self.until("}", self.function)
        return Service(name.text, extends, functions, self.annotations(), name.at)

    def function(self) -> Function:
        oneway = self.try_take("oneway")
        returns = None if self.try_take("void") else self.type()
        name = self.name("the name of a function")
        self.expect("(")
        arguments = self.until(")", self.field)
        throws: list[Field] = []
        if self.try_take("throws"):
            self.expect("(")
            throws = self.until(")", self.field)
        return Function(name.text, returns, arguments, throws, oneway, self.annotations(), name.at)

    # Types, values, annotations.

    def type(self) -> Written:
        token = self.dotted("a type")
        if token.text in _UNSUPPORTED:
            raise self.error(f"{token.text!r} is long out of use.", token.at)
        if token.text not in _CONTAINERS:
            name = BASES[token.text].value if token.text in BASES else token.text
            if name in _RESERVED and name not in BASES:
                raise self.error(f"{name!r} is not a type.", token.at)
            return Written(name, (), self.annotations(), token.at)
        self.foreign_type()
        self.expect("<")
        arguments = [self.nested(self.type)]
        for _ in range(_CONTAINERS[token.text] - 1):
            self.expect(",")
            arguments.append(self.nested(self.type))
        self.expect(">")
        self.foreign_type()
        return Written(token.text, tuple(arguments), self.annotations(), token.at)

    def foreign_type(self) -> None:
        """A C++ type that some texts give beside a container. It has no meaning elsewhere."""
        if self.try_take("cpp_type"):
            self.string()

    def value(self) -> Value:
        token = self.token
        match token.kind:
            case "int":
                return self.integer("a number", 64)
            case "double":
                self.take()
                return float(token.text)
            case "string":
                return Text(self.string())
            case "word":
                self.take()
                return token.text == "true" if token.text in ("true", "false") else Name(token.text, token.at)
        if self.try_take("["):
            return Items(tuple(self.nested(lambda: self.until("]", self.value))))
        if self.try_take("{"):
            return Pairs(tuple(self.nested(lambda: self.until("}", self.pair))))
        raise self.expected("a value")

    def pair(self) -> tuple[Value, Value]:
        key = self.value()
        self.expect(":")
        return key, self.value()

    def annotations(self) -> Annotations:
        if not self.try_take("("):
            return ()

        def annotation() -> tuple[str, str]:
            name = self.dotted("the name of an annotation").text
            return name, self.string() if self.try_take("=") else "1"

        return tuple(self.until(")", annotation))


def whole(text: str) -> int:
    """One that is very long is just very large."""
    if len(text) > _LONGEST_NUMBER:
        return 2**128
    return int(text, 16) if "x" in text.lower() else int(text)
