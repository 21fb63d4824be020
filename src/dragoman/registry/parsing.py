"""From schema texts to parsed schemas, with the references that other contracts resolve."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from dragoman.core.database import Transaction
from dragoman.core.errors import DragomanError, InvalidSchema
from dragoman.core.format import Format, ParsedSchema
from dragoman.core.loading import FORMATS, load, names
from dragoman.core.schema import Reference
from dragoman.registry.identity import digest_of
from dragoman.registry.limits import Limits
from dragoman.registry.model import LATEST
from dragoman.registry.name import DEFAULT_CONTEXT, contract_name
from dragoman.registry.store import contracts

_MOST_KEPT = 4096
_MOST_CHARACTERS = 16 * 1024 * 1024
"""Of all texts whose parsed form is kept; that takes many times the room."""

_Key = tuple[str, str, str, tuple[Reference, ...]]
_Step = tuple[str, int]
_Path = tuple[_Step, ...]


@dataclass(frozen=True)
class Parsed:
    format: Format
    schema: ParsedSchema

    @cached_property
    def normal(self) -> str:
        """The digest of the normal form, which is equal for schemas that differ in layout and order only."""
        try:
            return digest_of(self.schema.normalised(2))
        except RecursionError:
            return digest_of(self.schema.normalised(1))


class Parser:
    """Parses once and remembers. Safe for many threads."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._kept: OrderedDict[_Key, Parsed] = OrderedDict()
        self._characters = 0
        self._guard = threading.Lock()

    def parse(
        self,
        tx: Transaction,
        type: str,
        text: str,
        references: Sequence[Reference] = (),
        context: str = DEFAULT_CONTEXT,
    ) -> Parsed:
        """Raises ``InvalidSchema`` with the place; a reference that leads nowhere is an invalid schema."""
        return self._parse(tx, type, text, tuple(references), context, (), {})

    def check(self, type: str, text: str, references: Sequence[Reference]) -> None:
        """What even an import must keep to: a known type, and the limits."""
        format_of(type)
        self._limits.check_schema(type, text, references)

    def _parse(
        self,
        tx: Transaction,
        type: str,
        text: str,
        references: tuple[Reference, ...],
        context: str,
        path: _Path,
        met: dict[_Step, ParsedSchema],
    ) -> Parsed:
        key = (context, type, text, references)
        with self._guard:
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
        if known is None:
            self._limits.check_schema(type, text, references)
        # Also for a schema that is known: what it refers to may have been deleted for good meanwhile.
        resolved = {each.name: self._resolve(tx, each, type, context, path, met) for each in references}
        if known is not None:
            return known
        format = format_of(type)
        parsed = Parsed(format, _guarded(format, text, resolved))
        # What "latest" leads to may change, so it is looked up again each time.
        if not any(each.version == LATEST for each in references):
            self._keep(key, parsed)
        return parsed

    def _resolve(
        self,
        tx: Transaction,
        reference: Reference,
        type: str,
        context: str,
        path: _Path,
        met: dict[_Step, ParsedSchema],
    ) -> ParsedSchema:
        """``met`` has what was resolved already: many schemas may refer to one."""
        target = contract_name(reference.contract, context)
        if reference.version == LATEST:
            found = contracts.latest(tx, target)
        else:
            found = contracts.version(tx, target, reference.version, deleted=True)
        if found is None:
            raise InvalidSchema(
                f"The reference {reference.name!r} leads to version {reference.version} of"
                f" '{reference.contract}', which does not exist.",
                next="Register what it refers to first.",
            )
        if found.schema.type != type:
            raise InvalidSchema(
                f"The reference {reference.name!r} leads to a schema of type {found.schema.type}, not {type}."
            )
        step = (str(target), found.version)
        self._limits.check_reference_path(path, step)
        if step not in met:
            schema, path = found.schema, (*path, step)
            parsed = self._parse(tx, schema.type, schema.text, schema.references, target.context, path, met)
            met[step] = parsed.schema
        return met[step]

    def pinned(self, tx: Transaction, references: Sequence[Reference], context: str) -> tuple[Reference, ...]:
        """With numbers instead of ``LATEST``, so that a schema that is stored never changes its meaning."""
        return tuple(self._pinned(tx, each, context) for each in references)

    def _pinned(self, tx: Transaction, reference: Reference, context: str) -> Reference:
        if reference.version != LATEST:
            return reference
        found = contracts.latest(tx, contract_name(reference.contract, context))
        return reference if found is None else replace(reference, version=found.version)

    def _keep(self, key: _Key, parsed: Parsed) -> None:
        with self._guard:
            if key in self._kept:
                return
            self._kept[key] = parsed
            self._characters += len(key[2])
            while len(self._kept) > _MOST_KEPT or self._characters > _MOST_CHARACTERS:
                (_, _, text, _), _ = self._kept.popitem(last=False)
                self._characters -= len(text)


@cache
def schema_types() -> tuple[str, ...]:
    """The types that this installation understands; looking them up is slow."""
    return names(FORMATS)


def format_of(type: str) -> Format:
    """The format that understands schemas of this type."""
    if type not in schema_types():
        raise InvalidSchema(
            f"There is no schema type {type!r}.", next=f"Known are {', '.join(schema_types())}."
        )
    found: Format = load(FORMATS, type)()
    return found


def _guarded(format: Format, text: str, resolved: dict[str, ParsedSchema]) -> ParsedSchema:
    """A parser may only ever refuse; whatever else goes wrong in it is a refusal too."""
    try:
        return format.parse(text, resolved)
    except DragomanError:
        raise
    except RecursionError as error:
        raise InvalidSchema("The schema is nested too deeply.") from error
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise InvalidSchema(f"The text is not a schema of type {format.schema_type}: {error}") from error
