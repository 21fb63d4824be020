"""The registry port, implemented by the service in process and by its HTTP client alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from dragoman.core.contract import Compatibility, Contract, ContractVersion, Verdict
from dragoman.core.schema import Schema

VersionNumber = int | Literal["latest"]


class Registry(Protocol):
    """Schemas by id, contracts by name. Safe for many tasks of one event loop.

    Raises ``NotFound``, ``RegistryUnavailable``, ``InvalidSchema``, ``IncompatibleSchema``, ``Conflict``,
    ``Forbidden``, all of ``dragoman.core.errors``, in both implementations.
    """

    async def schema(self, id: int) -> Schema:
        """Never changes for an id, so it may be cached for ever."""

    async def contracts(self, prefix: str = "") -> Sequence[str]: ...

    async def contract(self, name: str) -> Contract: ...

    async def versions(self, contract: str) -> Sequence[int]: ...

    async def version(self, contract: str, version: VersionNumber = "latest") -> ContractVersion: ...

    async def register(self, contract: str, schema: Schema, *, normalize: bool = False) -> ContractVersion:
        """The version of this schema in the contract, made if need be. Doing it again changes nothing.

        Creates the contract with its first version. ``normalize`` applies level 2 first.
        """

    async def find(self, contract: str, schema: Schema, *, normalize: bool = False) -> ContractVersion:
        """The version that has this schema. Raises ``NotFound``."""

    async def check(
        self, contract: str, schema: Schema, *, version: VersionNumber | None = None, normalize: bool = False
    ) -> Verdict:
        """Would ``register`` accept it? With ``version``, compared with that one alone. Changes nothing."""

    async def set_compatibility(self, contract: str, compatibility: Compatibility) -> None:
        """Also for a contract that has no version yet."""

    async def delete(
        self, contract: str, version: int | None = None, *, permanent: bool = False
    ) -> Sequence[int]:
        """In two steps: first hidden, then, with ``permanent``, gone. Version numbers are never reused."""

    async def close(self) -> None: ...
