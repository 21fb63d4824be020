"""References between schemas, resolved once when a schema is parsed.

A linked schema is a list of documents. Document 0 is the schema's own, the others are those of its
references. Each reference in them is rewritten to ``dragoman:///N#/pointer``, so nothing that works on
a linked schema resolves anything again, and nothing is ever fetched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from dragoman.core.errors import InvalidSchema
from dragoman.formats.json.document import pointer, steps
from dragoman.formats.json.draft import Draft, live_subschemas, subschemas

MAX_SCHEMAS = 20_000
MAX_DOCUMENTS = 500
SCHEME = "dragoman:///"
_PLACE = re.compile(r"dragoman:///(\d{1,9})#(.*)", re.DOTALL)
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_DYNAMIC_ANCHORS = ("$dynamicAnchor", "$recursiveAnchor")


class Place(NamedTuple):
    """A subschema: the number of its document, and the pointer inside it."""

    document: int
    pointer: str

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self.document}#{self.pointer}"


def place_of(uri: str) -> Place:
    """The place that a rewritten reference names."""
    number, _, path = uri.removeprefix(SCHEME).partition("#")
    return Place(int(number), path)


def joined(base: str, reference: str) -> str:
    """``urljoin`` that also keeps a base such as ``urn:x:y`` before a fragment."""
    return base + reference if reference.startswith("#") else urljoin(base, reference)


@dataclass(frozen=True)
class Linked:
    """Documents whose references are all rewritten to places, with the draft of each."""

    documents: tuple[Any, ...]
    drafts: tuple[Draft, ...]
    names: tuple[str, ...]
    """Under which name each document was referred to; empty for the schema's own."""

    def at(self, place: Place) -> Any:
        return walk(self.documents[place.document], place.pointer)

    def shown(self, place: Place) -> str:
        """The pointer, behind the name of the document if it is not the schema's own."""
        name = self.names[place.document]
        return f"{name}#{place.pointer}" if name else place.pointer


def walk(document: Any, path: str) -> Any:
    """The value at a JSON pointer. Raises ``KeyError``."""
    value = document
    for step in steps(path):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and _INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            raise KeyError(path)
    return value


def above(path: str) -> list[str]:
    """The pointers that a pointer leads through."""
    return [path[:end] for end, character in enumerate(path) if character == "/"]


def link(document: Any, draft: Draft, references: Mapping[str, Linked]) -> Linked:
    """Resolve every reference of a document. Raises ``InvalidSchema`` with the pointer of one that fails."""
    documents: list[Any] = [None]
    drafts: list[Draft] = [draft]
    names = [""]
    named: dict[str, int] = {}
    known: dict[int, int] = {}
    for name, other in references.items():
        if id(other) in known:
            named[name] = known[id(other)]
            continue
        named[name] = known[id(other)] = len(documents)
        if len(documents) + len(other.documents) > MAX_DOCUMENTS:
            raise InvalidSchema(
                f"The schema refers, itself or through others, to more than {MAX_DOCUMENTS} schemas.",
                code="schema.invalid.size",
                next="Put what belongs together into one schema.",
            )
        documents += [_shifted(each, len(documents)) for each in other.documents]
        drafts += other.drafts
        names += [each or name for each in other.names]
    linker = _Linker(document, draft, named, documents)
    documents[0] = linker.linked()
    return Linked(tuple(documents), tuple(drafts), tuple(names))


def _shifted(document: Any, by: int) -> Any:
    """A linked document with the numbers of its references raised."""
    if isinstance(document, dict):
        return {
            key: _moved(value, by) if key == "$ref" and isinstance(value, str) else _shifted(value, by)
            for key, value in document.items()
        }
    if isinstance(document, list):
        return [_shifted(each, by) for each in document]
    return document


def _moved(uri: str, by: int) -> str:
    found = _PLACE.fullmatch(uri)
    return Place(int(found[1]) + by, found[2]).uri if found else uri


class _Linker:
    """One document on its way to being linked."""

    def __init__(self, document: Any, draft: Draft, named: Mapping[str, int], others: list[Any]) -> None:
        self._document = document
        self._draft = draft
        self._named = named
        self._others = others
        self._identified: dict[str, str] = {}
        self._dynamic: dict[str, int] = {}
        self._found: list[tuple[str, dict[str, Any], str]] = []
        self._seen: set[str] = set()
        self._pending: list[tuple[str, Any, str]] = []
        self._ancestors: set[str] = set()

    def linked(self) -> Any:
        """Ids are gathered before references are resolved, since these may point forwards."""
        self._pending.append(("", self._document, ""))
        targets: dict[tuple[str, str], str] = {}
        while self._pending:
            self._scan()
            for path, schema, base in self._found:
                written = [each for each in self._draft.references if each in schema]
                if not all(isinstance(schema[each], str) for each in written):
                    raise InvalidSchema("A reference is a string.", pointer=path or "/")
                if len(written) > 1:
                    raise InvalidSchema(
                        f"{' and '.join(written)} stand in one schema.",
                        next="Put each in a schema of its own, in allOf.",
                        pointer=path,
                    )
                for keyword in written:
                    targets[path, keyword] = self._resolve(schema[keyword], base, f"{path}/{keyword}")
            self._found = []
        self._ancestors = {ancestor for path in self._seen for ancestor in above(path)}
        return self._rewritten(self._document, "", targets)

    def _scan(self) -> None:
        while self._pending:
            path, schema, base = self._pending.pop()
            if path in self._seen or not isinstance(schema, dict):
                continue
            self._seen.add(path)
            if len(self._seen) > MAX_SCHEMAS:
                raise InvalidSchema(
                    f"The schema has more than {MAX_SCHEMAS} subschemas.",
                    code="schema.invalid.size",
                    next="Split it and use references.",
                )
            base = self._identify(path, schema, base)
            self._found.append((path, schema, base))
            self._pending += [
                (f"{path}{pointer(inner)}", child, base)
                for inner, child in live_subschemas(schema, self._draft)
            ]

    def _identify(self, path: str, schema: dict[str, Any], base: str) -> str:
        own = schema.get(self._draft.id_keyword)
        if isinstance(own, str) and ("$ref" not in schema or self._draft.modern):
            uri, fragment = urldefrag(joined(base, own))
            if fragment:
                self._claim(f"{uri}#{fragment}", path)
            if uri != base or not path:
                self._claim(uri, path)
            base = uri
        for keyword in ("$anchor", *_DYNAMIC_ANCHORS):
            anchor = schema.get(keyword)
            if isinstance(anchor, str):
                self._claim(f"{base}#{anchor}", path)
            if anchor and keyword in _DYNAMIC_ANCHORS:
                self._dynamic[str(anchor)] = self._dynamic.get(str(anchor), 0) + 1
        return base

    def _claim(self, uri: str, path: str) -> None:
        if self._identified.setdefault(uri, path) != path:
            raise InvalidSchema(
                f"Two subschemas are identified as {uri!r}.", next="Rename one of them.", pointer=path
            )

    def _resolve(self, reference: str, base: str, path: str) -> str:
        self._refuse_dynamic(reference, path)
        uri, fragment = urldefrag(joined(base, reference))
        fragment = unquote(fragment)
        target = self._in_other(reference, uri, fragment, path)
        if target is not None:
            return target.uri
        root = "" if uri in ("", base) and uri not in self._identified else self._identified.get(uri)
        if root is None:
            raise InvalidSchema(
                f"The reference {reference!r} names neither a part of this schema nor a reference of it.",
                code="schema.invalid.reference",
                next="Register the other schema and list it among the references under this name; "
                "nothing is fetched from the network.",
                pointer=path,
            )
        anchored = self._identified.get(f"{uri}#{fragment}") if fragment else None
        return Place(0, self._inside(root, fragment, anchored, reference, path, uri)).uri

    def _inside(
        self, root: str, fragment: str, anchored: str | None, reference: str, path: str, base: str
    ) -> str:
        if anchored is not None:
            return anchored
        target = root + fragment
        try:
            if fragment and not fragment.startswith("/"):
                raise KeyError(fragment)
            schema = walk(self._document, target)
        except KeyError:
            schema = None
        if not isinstance(schema, dict | bool):
            raise InvalidSchema(
                f"The reference {reference!r} leads to no schema.",
                code="schema.invalid.reference",
                next="Check its fragment against the definitions.",
                pointer=path,
            )
        if target not in self._seen:
            self._pending.append((target, schema, base))
        return target

    def _in_other(self, reference: str, uri: str, fragment: str, path: str) -> Place | None:
        """A reference's name is met as it is written, or resolved against the base."""
        number = self._named.get(urldefrag(reference)[0], self._named.get(uri))
        if number is None:
            return None
        try:
            target = walk(self._others[number], fragment)
        except KeyError:
            target = None
        if not isinstance(target, dict | bool):
            raise InvalidSchema(
                f"The reference {reference!r} leads to no schema of the other document.",
                code="schema.invalid.reference",
                next="Check its fragment.",
                pointer=path,
            )
        return Place(number, fragment)

    def _refuse_dynamic(self, reference: str, path: str) -> None:
        """A dynamic reference with one possible target is a plain one; more would depend on the caller."""
        if path.endswith("/$ref"):
            return
        anchor = "True" if path.endswith("/$recursiveRef") else reference.partition("#")[2]
        if self._dynamic.get(anchor, 0) > 1:
            raise InvalidSchema(
                f"The dynamic reference {reference!r} has more than one target.",
                code="schema.invalid.reference",
                next="Use $ref, or keep a single dynamic anchor of that name.",
                pointer=path,
            )

    def _rewritten(self, schema: Any, path: str, targets: Mapping[tuple[str, str], str]) -> Any:
        """Values that are not schemas (``const``, ``default``, ...) keep whatever looks like a reference."""
        if not isinstance(schema, dict):
            return schema
        inner = {within for within, _ in subschemas(schema)}
        ignored = {within[0] for within in inner} - {
            within[0] for within, _ in live_subschemas(schema, self._draft)
        }
        copy: dict[str, Any] = {}
        for keyword, value in schema.items():
            if keyword in ignored and f"{path}/{keyword}" not in self._ancestors:
                continue
            if (path, keyword) in targets:
                copy["$ref"] = targets[path, keyword]
            elif keyword in (self._draft.id_keyword, "$anchor", *_DYNAMIC_ANCHORS):
                continue
            elif (keyword,) in inner:
                copy[keyword] = self._rewritten(value, f"{path}/{keyword}", targets)
            elif isinstance(value, list) and (keyword, 0) in inner:
                copy[keyword] = [
                    self._rewritten(each, f"{path}/{keyword}/{index}", targets)
                    for index, each in enumerate(value)
                ]
            elif isinstance(value, dict):
                copy[keyword] = self._rewritten_members(value, f"{path}/{keyword}", targets)
            else:
                copy[keyword] = value
        return copy

    def _rewritten_members(
        self, members: dict[str, Any], path: str, targets: Mapping[tuple[str, str], str]
    ) -> dict[str, Any]:
        """Maps of schemas, and foreign keywords that a reference leads into."""
        copy: dict[str, Any] = {}
        for name, value in members.items():
            inner = f"{path}{pointer((name,))}"
            if inner in self._seen:
                copy[name] = self._rewritten(value, inner, targets)
            elif isinstance(value, dict) and inner in self._ancestors:
                copy[name] = self._rewritten_members(value, inner, targets)
            else:
                copy[name] = value
        return copy
