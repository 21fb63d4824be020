"""What administrators do beside the port: the same calls in process and over HTTP."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import msgspec

from dragoman.core.database import Transaction
from dragoman.core.errors import ConfigurationError
from dragoman.core.registry import Registry
from dragoman.registry import bundle as bundles
from dragoman.registry import keys as secrets
from dragoman.registry import refusals
from dragoman.registry.access import Grant
from dragoman.registry.bundle import Bundle
from dragoman.registry.client import RegistryClient
from dragoman.registry.comparison import compare
from dragoman.registry.lookup import previous, version_number, version_of
from dragoman.registry.model import Json, Key
from dragoman.registry.name import ContractName, contract_name
from dragoman.registry.service import RegistryService
from dragoman.registry.store import history, keys

_WHOLE = 600.0
"""Seconds that a server gets to read or write all there is."""


class Administration(Protocol):
    """Answers are the JSON values of the HTTP API."""

    async def history(self, contract: str | None, limit: int) -> Sequence[Json]:
        """Of one contract, or of all; newest first."""

    async def compare(self, contract: str, older: int | None, newer: int | None) -> Json: ...

    async def channels(self, contract: str) -> Sequence[str]: ...

    async def bind(self, contract: str, channel: str) -> None: ...

    async def unbind(self, contract: str, channel: str) -> None: ...

    async def export(self) -> Bundle: ...

    async def restore(self, bundle: Bundle) -> Mapping[str, int]: ...

    async def keys(self) -> Sequence[Json]: ...

    async def create_key(self, owner: str, grants: Sequence[str], lifetime: float | None) -> Json: ...

    async def revoke_key(self, id: str) -> None: ...


def administer(registry: Registry) -> Administration:
    if isinstance(registry, RegistryService):
        return Local(registry)
    if isinstance(registry, RegistryClient):
        return Remote(registry)
    raise ConfigurationError(f"{type(registry).__name__} cannot be administered.")


class Local:
    """Directly on the database."""

    def __init__(self, service: RegistryService) -> None:
        self._service = service
        self._engine = service.engine

    async def history(self, contract: str | None, limit: int) -> Sequence[Json]:
        if contract is None:
            found = await self._engine.read(lambda tx: history.everything(tx, limit))
        else:
            name = contract_name(contract)
            found = await self._engine.read(lambda tx: history.of_contract(tx, name, limit))
            if not found:
                raise refusals.no_contract(name)
        return [change.value() for change in found]

    async def compare(self, contract: str, older: int | None, newer: int | None) -> Json:
        name, parser = contract_name(contract), self._engine.parser
        last = version_number("latest" if newer is None else newer)

        def work(tx: Transaction) -> Json:
            end = version_of(tx, name, last, deleted=True).version
            start = previous(tx, name, end) if older is None else version_number(older)
            return compare(tx, parser, name, start, end).value()

        return await self._engine.read(work)

    async def channels(self, contract: str) -> Sequence[str]:
        name = contract_name(contract)
        return await self._engine.read(lambda tx: history.channels_of(tx, name))

    async def bind(self, contract: str, channel: str) -> None:
        await self._service.bind(contract_name(contract), channel)

    async def unbind(self, contract: str, channel: str) -> None:
        await self._service.unbind(contract_name(contract), channel)

    async def export(self) -> Bundle:
        return await self._engine.read(bundles.collect)

    async def restore(self, bundle: Bundle) -> Mapping[str, int]:
        parser, author = self._engine.parser, self._service.author
        touched = [ContractName(context, "") for context in sorted(bundles.contexts_in(bundle))]
        return await self._engine.write(
            lambda tx: bundles.restore(tx, parser, bundle, author=author), *touched
        )

    async def keys(self) -> Sequence[Json]:
        return [key_value(each) for each in await self._engine.read(keys.everything)]

    async def create_key(self, owner: str, grants: Sequence[str], lifetime: float | None) -> Json:
        given = tuple(Grant.parse(text) for text in grants)
        if lifetime is not None and not 0 < lifetime < math.inf:
            raise ConfigurationError(
                "A key lives for more than no time.",
                code="registry.invalid.lifetime",
                next="Give it a number of seconds above zero, or none to keep it until it is revoked.",
            )
        expires = None if lifetime is None else time.time() + lifetime
        author = self._service.author
        made = await self._engine.write(
            lambda tx: secrets.create_key(tx, owner, given, expires=expires, author=author), secrets.REGISTRY
        )
        return {"id": made.id, "secret": made.secret, "token": made.token}

    async def revoke_key(self, id: str) -> None:
        author = self._service.author
        await self._engine.write(lambda tx: secrets.revoke(tx, id, author=author), secrets.REGISTRY)


class Remote:
    """Through a server."""

    def __init__(self, client: RegistryClient) -> None:
        self._call = client.call

    async def history(self, contract: str | None, limit: int) -> Sequence[Json]:
        path = "/history" if contract is None else _path(contract, "history")
        found: list[Json] = await self._call("GET", path, params={"limit": str(limit)})
        return found

    async def compare(self, contract: str, older: int | None, newer: int | None) -> Json:
        asked = {"from": older, "to": newer}
        params = {name: str(value) for name, value in asked.items() if value is not None}
        found: Json = await self._call("GET", _path(contract, "compare"), params=params)
        return found

    async def channels(self, contract: str) -> Sequence[str]:
        found: list[str] = await self._call("GET", _path(contract, "channels"))
        return found

    async def bind(self, contract: str, channel: str) -> None:
        await self._call("PUT", _path(contract, "channels", channel))

    async def unbind(self, contract: str, channel: str) -> None:
        await self._call("DELETE", _path(contract, "channels", channel))

    async def export(self) -> Bundle:
        return bundles.from_value(await self._call("GET", "/export", timeout=_WHOLE))

    async def restore(self, bundle: Bundle) -> Mapping[str, int]:
        content = bundles.to_json(bundle)
        found: dict[str, int] = await self._call("POST", "/import", content=content, timeout=_WHOLE)
        return found

    async def keys(self) -> Sequence[Json]:
        found: list[Json] = await self._call("GET", "/keys")
        return found

    async def create_key(self, owner: str, grants: Sequence[str], lifetime: float | None) -> Json:
        body = msgspec.json.encode({"owner": owner, "grants": list(grants), "lifetime": lifetime})
        found: Json = await self._call("POST", "/keys", content=body)
        return found

    async def revoke_key(self, id: str) -> None:
        await self._call("DELETE", f"/keys/{quote(id, safe='')}")


def key_value(key: Key) -> Json:
    """A key as it may be shown."""
    return {
        "id": key.id,
        "kind": key.kind,
        "owner": key.owner,
        "grants": [str(grant) for grant in key.grants],
        "created": key.created,
        "expires": key.expires,
    }


async def back_up(registry: Registry, target: Path) -> str:
    """An online backup: SQLite's own for SQLite, an export in one file for everything else.

    The kind that was made: ``sqlite`` or ``bundle``.
    """
    if isinstance(registry, RegistryService):
        copy = getattr(registry.engine.database, "backup", None)
        if copy is not None:
            copy(str(target))
            return "sqlite"
    target.write_bytes(bundles.to_json(await administer(registry).export()))
    return "bundle"


def _path(contract: str, *more: str) -> str:
    return "/".join(("/contracts", quote(contract, safe=""), *(quote(each, safe="") for each in more)))
