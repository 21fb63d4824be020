"""A Thrift schema: one linked document, with those it includes, and the struct that messages hold."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property

from dragoman.formats.thrift.link import Linker
from dragoman.formats.thrift.model import Document, Linked, Struct
from dragoman.formats.thrift.parser import parse_text
from dragoman.formats.thrift.printer import print_document
from dragoman.schema.scanning import Source

ROOT = "dragoman.root"
"""An annotation that makes its struct the root, ``(dragoman.root = "true")``; else the last struct is it."""

PROTOCOL = "dragoman.protocol"
"""An annotation of the root that names the encoding, ``compact`` unless it says ``binary``."""


class Protocol(StrEnum):
    COMPACT = "compact"
    BINARY = "binary"


class ThriftSchema:
    """A valid document. Payloads hold its root struct."""

    def __init__(
        self, text: str, linked: Linked, references: Mapping[str, ThriftSchema], root: Struct | None
    ) -> None:
        self.text = text
        self.linked = linked
        self.references = references
        self.root = root

    @classmethod
    def from_text(cls, text: str, references: Mapping[str, ThriftSchema]) -> ThriftSchema:
        """Raises ``InvalidSchema`` with line and column."""
        document, source = parse_text(text)
        used = _included(document, source, references)
        linked = Linker(document, source, {name: each.linked for name, each in used.items()}).link()
        root = _root(document, source)
        if root is not None:
            _protocol(root, source)
        return cls(text, linked, used, root)

    @property
    def document(self) -> Document:
        return self.linked.document

    @property
    def namespace(self) -> str:
        """The namespace for all languages, else the first one that is given."""
        spaces = {each.scope: each.name for each in reversed(self.document.namespaces)}
        return spaces.get("*", next(reversed(spaces.values()), ""))

    @property
    def name(self) -> str:
        if self.root is None:
            return ""
        return f"{self.namespace}.{self.root.name}" if self.namespace else self.root.name

    @property
    def protocol(self) -> Protocol:
        written = self.root.annotation(PROTOCOL) if self.root is not None else None
        return Protocol(written or Protocol.COMPACT)

    @cached_property
    def fingerprint(self) -> str:
        """A SHA-256 over all that decides about the bytes: this document and the ones it includes."""
        digest = hashlib.sha256(print_document(self.document, order=True, wire=True).encode())
        for name in sorted(self.references):
            digest.update(f"{name} {self.references[name].fingerprint}\n".encode())
        return digest.hexdigest()

    def normalised(self, level: int) -> str:
        return print_document(self.document, order=level >= 2)


def _included(
    document: Document, source: Source, references: Mapping[str, ThriftSchema]
) -> dict[str, ThriftSchema]:
    """The included schemas by the prefix of their names."""
    found: dict[str, ThriftSchema] = {}
    for include in document.includes:
        schema = references.get(include.path)
        if schema is None:
            raise source.error(
                f"The included file {include.path!r} is not known.",
                include.at,
                "Register it, and name it in the references of this schema.",
            )
        if include.prefix in found:
            raise source.error(f"Two included files are called {include.prefix!r}.", include.at)
        found[include.prefix] = schema
    return found


def _root(document: Document, source: Source) -> Struct | None:
    structs = list(document.structs())
    marked = [each for each in structs if each.annotation(ROOT) is not None]
    if len(marked) > 1:
        raise source.error(f"{marked[1].name} is a second root.", marked[1].at, f"Keep one {ROOT}.")
    return (marked or structs)[-1] if structs else None


def _protocol(root: Struct, source: Source) -> None:
    written = root.annotation(PROTOCOL)
    if written is not None and written not in list(Protocol):
        known = ", ".join(Protocol)
        raise source.error(f"{written!r} is not a protocol.", root.at, f"Known: {known}.")
