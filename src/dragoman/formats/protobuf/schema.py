"""A Protobuf schema: one linked file, with the files it imports."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import Message

from dragoman.core.errors import InvalidSchema
from dragoman.formats.protobuf.check import Complaint, check
from dragoman.formats.protobuf.known import known_file
from dragoman.formats.protobuf.link import Linker, Symbols, float_text, join, messages_of, symbols_of
from dragoman.formats.protobuf.options import interpret_custom, interpret_standard
from dragoman.formats.protobuf.parser import Path, Syntax, parse_text
from dragoman.formats.protobuf.printer import json_name, print_file
from dragoman.schema.scanning import Source

Files = dict[str, pb.FileDescriptorProto]
"""Import paths and the linked files behind them, each after the ones it imports."""

ROOT = "schema.proto"


class ProtobufSchema:
    """A valid file. Its descriptors live in a pool of their own, so schemas never meet each other's names."""

    def __init__(
        self, text: str, file: pb.FileDescriptorProto, imports: Files, pool: DescriptorPool, symbols: Symbols
    ) -> None:
        self.text = text
        self.file = file
        self.imports = imports
        self.pool = pool
        self.symbols = symbols

    @classmethod
    def from_text(cls, text: str, references: Mapping[str, ProtobufSchema]) -> ProtobufSchema:
        """Of a .proto text. Raises ``InvalidSchema`` with line and column."""
        syntax = parse_text(text)
        return cls._built(text, syntax, references, True)

    @classmethod
    def from_base64(cls, text: str, references: Mapping[str, ProtobufSchema]) -> ProtobufSchema:
        """Of a serialized ``FileDescriptorProto``, the form that many clients register."""
        try:
            file = pb.FileDescriptorProto.FromString(base64.b64decode(text.strip(), validate=True))
            _check_text(file)
        except (binascii.Error, ValueError, ProtobufDecodeError) as error:
            raise InvalidSchema(
                "This is neither a .proto text nor a FileDescriptorProto in base64.",
                next="Send one of the two.",
                line=1,
                column=1,
            ) from error
        file.ClearField("source_code_info")
        if file.syntax == "proto2":
            file.ClearField("syntax")
        syntax = Syntax(_completed(file, references), Source(""), {}, {})
        # Descriptors can say more than texts can. What counts is what the text can say.
        made = cls.from_text(cls._built(text, syntax, references, False).normalised(1), references)
        made.text = text
        return made

    @classmethod
    def _built(
        cls, text: str, syntax: Syntax, references: Mapping[str, ProtobufSchema], written: bool
    ) -> ProtobufSchema:
        file = syntax.file
        imports = _imports(syntax, references)
        file.name = ROOT
        while file.name in imports:
            file.name = "_" + file.name
        linker = Linker(syntax, _visible(file, imports))

        def complain(what: str, path: Path, next: str) -> InvalidSchema:
            return linker.error(what, path, next)

        custom = {}
        if written:
            linker.link()
            custom = interpret_standard(linker)
        check(file, complain)
        pool = _pool(file, imports, complain)
        if custom:
            interpret_custom(linker, custom, pool)
        return cls(text, file, imports, pool, linker.symbols)

    @property
    def name(self) -> str:
        """The full name of the first message, which is what payloads hold unless they say otherwise."""
        if not self.file.message_type:
            return ""
        first = self.file.message_type[0].name
        return f"{self.file.package}.{first}" if self.file.package else first

    @cached_property
    def fingerprint(self) -> str:
        """A SHA-256 over all that decides about the bytes: this file and the ones it imports."""
        digest = hashlib.sha256()
        for name in sorted(self.imports):
            if known_file(name) is None:
                digest.update(self._wire(self.imports[name]))
        digest.update(self._wire(self.file))
        return digest.hexdigest()

    def normalised(self, level: int) -> str:
        """The canonical .proto text; from level 2 on also with fields, imports and options in order."""
        return print_file(self.file, self.pool, self.symbols, order=level >= 2)

    def _wire(self, file: pb.FileDescriptorProto) -> bytes:
        return print_file(file, self.pool, self.symbols, order=True, wire=True).encode()

    def serialized(self) -> str:
        """The ``FileDescriptorProto`` in base64, for clients that ask for ``format=serialized``."""
        return base64.b64encode(self.file.SerializeToString(deterministic=True)).decode("ascii")

    @cached_property
    def messages(self) -> dict[tuple[int, ...], Descriptor]:
        """Every message that a payload may hold, by its indexes; entries of maps are none."""
        return {indexes: self.pool.FindMessageTypeByName(name) for indexes, name in _indexed(self.file)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProtobufSchema) and self.file == other.file and self.imports == other.imports

    def __hash__(self) -> int:
        return hash(self.fingerprint)


def _check_text(message: Message) -> None:
    """Raises ``ValueError`` if a string is not UTF-8: descriptors of the older kind do not see to that."""
    for field, value in message.ListFields():
        for each in value if field.is_repeated else (value,):
            if isinstance(each, Message):
                _check_text(each)
            elif field.type == field.TYPE_STRING and isinstance(each, bytes):
                raise ValueError(f"{field.name} is not UTF-8.")


def _completed(
    file: pb.FileDescriptorProto, references: Mapping[str, ProtobufSchema]
) -> pb.FileDescriptorProto:
    """The file as the pool has it, with full type names and all that compilers leave open."""
    syntax = Syntax(file, Source(""), {}, {})
    file.name = ROOT

    def complain(what: str, path: Path, next: str) -> InvalidSchema:
        return syntax.source.error(what, 0, next)

    imports = _imports(syntax, references)
    if ROOT in imports:
        file.name = "_" + ROOT
    completed = pb.FileDescriptorProto()
    _pool(file, imports, complain).FindFileByName(file.name).CopyToProto(completed)
    _tidy(completed)
    return completed


def _tidy(file: pb.FileDescriptorProto) -> None:
    """Compilers differ in whether they write out usual JSON names, and in how they write numbers."""
    fields = [field for message, _, _ in messages_of(file) for field in (*message.field, *message.extension)]
    for field in (*fields, *file.extension):
        if field.json_name == json_name(field.name):
            field.ClearField("json_name")
        if field.default_value and field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
            field.default_value = float_text(float(field.default_value))


def _indexed(file: pb.FileDescriptorProto) -> Iterator[tuple[tuple[int, ...], str]]:
    def inner(
        messages: Sequence[pb.DescriptorProto], indexes: tuple[int, ...], scope: str
    ) -> Iterator[tuple[tuple[int, ...], str]]:
        for index, message in enumerate(messages):
            if not message.options.map_entry:
                name = f"{scope}.{message.name}" if scope else message.name
                yield (*indexes, index), name
                yield from inner(message.nested_type, (*indexes, index), name)

    return inner(file.message_type, (), file.package)


def _imports(syntax: Syntax, references: Mapping[str, ProtobufSchema]) -> Files:
    found: Files = {}
    names = [((3, index), name) for index, name in enumerate(syntax.file.dependency)]
    names += [((15, index), name) for index, name in enumerate(syntax.file.option_dependency)]
    for path, name in names:
        if known_file(name) is not None:
            _add_known(name, found)
            continue
        reference = references.get(name)
        if reference is None:
            at = syntax.places.get(path, 0)
            raise syntax.source.error(
                f"The imported file {name!r} is not known.",
                at,
                "Register it, and name it in the references of this schema.",
            )
        for inner, file in reference.imports.items():
            _add(inner, file, found, syntax, path)
        copy = pb.FileDescriptorProto()
        copy.CopyFrom(reference.file)
        copy.name = name
        _add(name, copy, found, syntax, path)
    return found


def _add(name: str, file: pb.FileDescriptorProto, found: Files, syntax: Syntax, path: Path) -> None:
    if name in found and found[name] != file:
        at = syntax.places.get(path, 0)
        raise syntax.source.error(
            f"The references give two different files for {name!r}.", at, "Let all refer to one version."
        )
    found.setdefault(name, file)


def _add_known(name: str, found: Files) -> None:
    file = known_file(name)
    if file is None or name in found:
        return
    for inner in file.dependency:
        _add_known(inner, found)
    found[name] = file


def _visible(file: pb.FileDescriptorProto, imports: Files) -> dict[str, str]:
    """The symbols of direct imports, and of what those import publicly."""
    found: dict[str, str] = {}
    waiting = [*file.dependency, *file.option_dependency]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in imports:
            continue
        seen.add(name)
        found.update(symbols_of(imports[name]))
        waiting += (imports[name].dependency[index] for index in imports[name].public_dependency)
    return found


def _pool(file: pb.FileDescriptorProto, imports: Files, complain: Complaint) -> DescriptorPool:
    pool = DescriptorPool()
    try:
        for name, imported in imports.items():
            if imported.name != name:
                raise InvalidSchema(f"The file {name!r} is called {imported.name!r} inside.")
            pool.AddSerializedFile(imported.SerializeToString())
        pool.AddSerializedFile(file.SerializeToString())
    except TypeError as error:
        why = str(error).removeprefix("Couldn't build proto file into descriptor pool: ")
        raise complain(f"Protobuf refuses this file: {why}", _named_in(why, file), "") from None
    return pool


def _named_in(why: str, file: pb.FileDescriptorProto) -> Path:
    """The path of the field or message that an error speaks of, as far as that can be told."""
    words = set(re.findall(r"[\w.]+", why))
    best: Path = ()
    for message, path, scope in messages_of(file):
        name = join(scope, message.name)
        best = path if name in words and not best else best
        for index, field in enumerate(message.field):
            best = (*path, 2, index) if join(name, field.name) in words else best
    for index, field in enumerate(file.extension):
        best = (7, index) if join(file.package, field.name) in words else best
    return best
