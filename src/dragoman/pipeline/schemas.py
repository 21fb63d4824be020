"""Contracts and schemas from the registry, for drivers and workers, each asked for once per process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from dragoman.core.contract import ContractVersion
from dragoman.core.errors import ConfigurationError, NotFound
from dragoman.core.registry import Registry, VersionNumber
from dragoman.core.schema import Schema
from dragoman.pipeline.arrow import SchemaText
from dragoman.pipeline.options import RegistryAccess
from dragoman.registry import connect

T = TypeVar("T")
FORGET_AFTER = 10.0
"""So many seconds an id that the registry, or a contract, does not know is not asked for again."""


@dataclass(frozen=True, slots=True)
class ReaderVersion:
    """The contract version that rows are read as."""

    contract: str
    version: int
    schema: SchemaText
    schema_id: int | None = None


class Schemas:
    """A registry seen from synchronous code. The event loop runs in a thread of its own.

    A loop that is already running, as in a notebook, is not disturbed.
    """

    def __init__(self, access: RegistryAccess) -> None:
        self._access = access
        self._texts: dict[int, SchemaText] = {}
        self._unknown: dict[int, float] = {}
        self._versions: dict[str, dict[int, int]] = {}
        self._foreign: dict[tuple[str, int], float] = {}
        self._loop = asyncio.new_event_loop()
        self._registry: Registry | None = None
        threading.Thread(target=self._loop.run_forever, name="dragoman-registry", daemon=True).start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _open(self) -> Registry:
        if self._registry is None:
            a = self._access
            self._registry = connect(a.url, username=a.username, password=a.password, token=a.token, ca=a.ca)
        return self._registry

    def text(self, schema_id: int) -> SchemaText:
        """The schema of an id, with what it refers to. Raises ``NotFound``."""
        found = self._texts.get(schema_id)
        if found is None:
            if time.monotonic() < self._unknown.get(schema_id, 0.0):
                raise NotFound("No such schema.", id=schema_id)
            found = self._texts[schema_id] = self._ask(schema_id)
        return found

    def _ask(self, schema_id: int) -> SchemaText:
        try:
            found = self.call(self._fetch(schema_id))
        except NotFound:
            if len(self._unknown) > 10_000:
                self._unknown.clear()
            self._unknown[schema_id] = time.monotonic() + FORGET_AFTER
            raise
        self._unknown.pop(schema_id, None)
        return found

    def forget_unknown(self) -> None:
        """Ask again for ids that the registry did not know: somebody waits for them."""
        self._unknown.clear()

    async def _fetch(self, schema_id: int) -> SchemaText:
        registry = await self._open()
        return await _with_references(registry, await registry.schema(schema_id))

    def reader(self, contract: str, version: str) -> ReaderVersion:
        """A contract's version, ``latest`` or a number as text. Raises ``NotFound``."""
        return self.call(self._reader(contract, version_number(version)))

    async def _reader(self, contract: str, number: VersionNumber) -> ReaderVersion:
        registry = await self._open()
        found: ContractVersion = await registry.version(contract, number)
        text = await _with_references(registry, found.schema)
        return ReaderVersion(contract, found.version, text, found.schema.id)

    def schema_id(self, contract: str, version: int) -> int:
        """The id that messages of a contract's version carry."""
        found = self.reader(contract, str(version)).schema_id
        if found is None:
            raise NotFound("The registry gave the version no id.", contract=contract, version=version)
        return found

    def register(self, contract: str, schema: Schema) -> int:
        """The id of a schema under a contract, registered if need be."""
        return self.call(self._register(contract, schema))

    async def _register(self, contract: str, schema: Schema) -> int:
        found = await (await self._open()).register(contract, schema)
        if found.schema.id is None:
            raise NotFound("The registry gave the schema no id.", contract=contract)
        return found.schema.id

    def contracts(self, prefix: str = "") -> list[str]:
        """The names of all contracts that begin so."""
        return self.call(self._contracts(prefix))

    async def _contracts(self, prefix: str) -> list[str]:
        return list(await (await self._open()).contracts(prefix))

    def writer_version(self, contract: str, schema_id: int) -> int | None:
        """The version of the contract that has this schema, ``None`` if it is another contract's."""
        known = self._versions.setdefault(contract, {})
        place = (contract, schema_id)
        asked = schema_id in self._unknown or time.monotonic() < self._foreign.get(place, 0.0)
        if schema_id not in known and not asked:
            known.update(self.call(self._version_ids(contract, frozenset(known.values()))))
            if schema_id not in known:
                # The contract may get this schema later.
                if len(self._foreign) > 10_000:
                    self._foreign.clear()
                self._foreign[place] = time.monotonic() + FORGET_AFTER
        return known.get(schema_id)

    async def _version_ids(self, contract: str, known: frozenset[int]) -> dict[int, int]:
        """From schema id to version, of the versions that are not known. Asked when a new id is met."""
        registry = await self._open()
        try:
            numbers = [each for each in await registry.versions(contract) if each not in known]
            found = [await registry.version(contract, number) for number in numbers]
        except NotFound:
            return {}
        return {each.schema.id: each.version for each in found if each.schema.id is not None}


def version_number(text: str) -> VersionNumber:
    """Raises ``ConfigurationError`` for what is neither ``latest`` nor a number."""
    if text == "latest":
        return "latest"
    if not text.isdecimal():
        raise ConfigurationError(
            f"The version cannot be {text!r}.",
            code="configuration.option",
            next="Allowed: latest, or a version's number.",
        )
    return int(text)


async def _with_references(registry: Registry, schema: Schema) -> SchemaText:
    inner = []
    for each in schema.references:
        referred = await registry.version(each.contract, each.version)
        inner.append((each.name, await _with_references(registry, referred.schema)))
    return SchemaText(schema.type, schema.text, tuple(inner))


@cache
def schemas(access: RegistryAccess) -> Schemas:
    """The one of this process. Tasks of a worker share what it has learnt."""
    return Schemas(access)
