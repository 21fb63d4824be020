"""A registry without a server: the classes that a program allows, each with an id made from its schema.

Two programs that allow the same class agree on its id without asking anybody. A schema that is not on the
list is unknown, whoever sends it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from dragoman.core.contract import Compatibility, Contract, ContractVersion, Verdict
from dragoman.core.errors import Conflict, NotFound, Unsupported
from dragoman.core.format import Format
from dragoman.core.loading import FORMATS, load
from dragoman.core.registry import VersionNumber
from dragoman.core.schema import Schema
from dragoman.schema.framing import MAX_ID
from dragoman.schema.naming import channel_of

FORMATS_ALLOWED = ("AVRO", "JSON")


class AllowList:
    """Implements the registry port as far as an endless list of single versions can."""

    def __init__(self, types: Iterable[type] = (), formats: Sequence[str] = FORMATS_ALLOWED) -> None:
        self._formats: dict[str, Format] = {name: load(FORMATS, name)() for name in formats}
        self._schemas: dict[int, Schema] = {}
        self._versions: dict[str, list[ContractVersion]] = {}
        for cls in types:
            self.allow(cls)

    def allow(self, cls: type) -> None:
        """Also an older version of a class, under the same name, so that its messages can be read."""
        for name, format in self._formats.items():
            self._admit(Schema(name, format.schema_of(cls)))

    def _admit(self, schema: Schema) -> Schema:
        parsed = self._formats[schema.type].parse(schema.text)
        digest = hashlib.sha256(f"{schema.type}\0{parsed.fingerprint}".encode()).digest()
        id = int.from_bytes(digest[:4], "big") & MAX_ID
        known = self._schemas.get(id)
        if known is None:
            known = self._schemas[id] = Schema(schema.type, schema.text, (), id, parsed.fingerprint)
        elif (known.type, known.fingerprint) != (schema.type, parsed.fingerprint):
            raise Conflict(
                f"Two schemas share the id {id}.", next="Rename one of the records.", schema=parsed.name
            )
        return known

    async def schema(self, id: int) -> Schema:
        found = self._schemas.get(id)
        if found is None:
            raise NotFound(
                f"The schema {id} is not on the list of allowed types.",
                next="Allow its class, or use a registry.",
            )
        return found

    async def register(self, contract: str, schema: Schema, *, normalize: bool = False) -> ContractVersion:
        admitted = self._admit(schema)
        versions = self._versions.setdefault(contract, [])
        for version in versions:
            if version.schema.id == admitted.id:
                return version
        versions.append(ContractVersion(contract, len(versions) + 1, admitted))
        return versions[-1]

    async def find(self, contract: str, schema: Schema, *, normalize: bool = False) -> ContractVersion:
        for version in self._versions.get(contract, ()):
            if (version.schema.type, version.schema.text) == (schema.type, schema.text):
                return version
        raise NotFound(f"{contract} has no such version.", contract=contract)

    async def contracts(self, prefix: str = "") -> Sequence[str]:
        return sorted(name for name in self._versions if name.startswith(prefix))

    async def contract(self, name: str) -> Contract:
        return Contract(name, channel_of(name), Compatibility.NONE, (await self.version(name)).version)

    async def versions(self, contract: str) -> Sequence[int]:
        return [each.version for each in self._versions.get(contract, ())]

    async def version(self, contract: str, version: VersionNumber = "latest") -> ContractVersion:
        versions = self._versions.get(contract)
        if not versions or (version != "latest" and not 1 <= version <= len(versions)):
            raise NotFound(f"{contract} has no such version.", contract=contract, version=version)
        return versions[-1 if version == "latest" else version - 1]

    async def check(
        self, contract: str, schema: Schema, *, version: VersionNumber | None = None, normalize: bool = False
    ) -> Verdict:
        return Verdict(compatible=True)

    async def set_compatibility(self, contract: str, compatibility: Compatibility) -> None:
        if compatibility is not Compatibility.NONE:
            raise Unsupported("A list of types checks no compatibility.", next="Use a registry for that.")

    async def delete(
        self, contract: str, version: int | None = None, *, permanent: bool = False
    ) -> Sequence[int]:
        raise Unsupported("A list of types forgets nothing.", next="Use a registry for that.")

    async def close(self) -> None: ...
