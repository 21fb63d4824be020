"""The registry over HTTP, with a memory: the port of ``dragoman.core.registry`` for everybody else."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

import httpx
import msgspec

from dragoman.core.backoff import Backoff
from dragoman.core.contract import Compatibility, Contract, ContractVersion, Verdict
from dragoman.core.errors import ConfigurationError, IncompatibleSchema, RegistryError, RegistryUnavailable
from dragoman.core.loading import redacted
from dragoman.core.registry import VersionNumber
from dragoman.core.schema import Reference, Schema
from dragoman.registry.http.answers import reasons_from
from dragoman.registry.refusals import error_from

T = TypeVar("T")
Fetch = Callable[[], Awaitable[T]]
Key = tuple[object, ...]

_ATTEMPTS = 3
_BACKOFF = Backoff(0.2, 2.0)
_AWAY = frozenset({502, 503, 504})


class RegistryClient:
    """What never changes is asked for once, however many ask at once; not-found is never remembered.

    When the registry is away, what may change is answered as it was last heard, and what was never
    heard raises ``RegistryUnavailable``.
    """

    def __init__(
        self,
        url: str,
        *,
        username: str = "",
        password: str = "",
        token: str = "",
        ca: str = "",
        timeout: float = 10.0,
    ) -> None:
        parts = _split(url)
        self.url = redacted(url)
        username = username or unquote(parts.username or "")
        password = password or unquote(parts.password or "")
        headers = {"Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        place = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
        self._http = httpx.AsyncClient(
            base_url=urlunsplit(place),
            auth=httpx.BasicAuth(username, password) if username and not token else None,
            headers=headers,
            timeout=timeout,
            verify=_trust(ca),
        )
        self._known: dict[Key, Any] = {}
        self._flights: dict[Key, asyncio.Future[Any]] = {}

    async def schema(self, id: int) -> Schema:
        async def fetch() -> Schema:
            return _schema(await self._get(f"/schemas/{id}"))

        return await self._once(("schema", id), fetch)

    async def contracts(self, prefix: str = "") -> Sequence[str]:
        async def fetch() -> Sequence[str]:
            return tuple(await self._get("/contracts", {"prefix": prefix} if prefix else None))

        return await self._fresh(("contracts", prefix), fetch)

    async def contract(self, name: str) -> Contract:
        async def fetch() -> Contract:
            found = await self._get(_path(name))
            return Contract(
                found["name"], found["channel"], Compatibility(found["compatibility"]), found["version"]
            )

        return await self._fresh(("contract", name), fetch)

    async def versions(self, contract: str) -> Sequence[int]:
        async def fetch() -> Sequence[int]:
            return tuple(await self._get(_path(contract, "versions")))

        return await self._fresh(("versions", contract), fetch)

    async def version(self, contract: str, version: VersionNumber = "latest") -> ContractVersion:
        async def fetch() -> ContractVersion:
            return self._version(await self._get(_path(contract, "versions", str(version))))

        remember = self._fresh if version == "latest" else self._once
        return await remember(("version", contract, version), fetch)

    async def register(self, contract: str, schema: Schema, *, normalize: bool = False) -> ContractVersion:
        async def fetch() -> ContractVersion:
            return self._version(await self._post(_path(contract), _body(schema), normalize=normalize))

        return await self._once(("registered", contract, _key(schema), normalize), fetch)

    async def find(self, contract: str, schema: Schema, *, normalize: bool = False) -> ContractVersion:
        async def fetch() -> ContractVersion:
            path = _path(contract, "versions")
            return self._version(await self._post(path, _body(schema), normalize=normalize))

        return await self._once(("found", contract, _key(schema), normalize), fetch)

    async def check(
        self, contract: str, schema: Schema, *, version: VersionNumber | None = None, normalize: bool = False
    ) -> Verdict:
        async def fetch() -> Verdict:
            options = {} if version is None else {"version": str(version)}
            path = _path(contract, "check")
            found = await self._post(path, _body(schema), normalize=normalize, **options)
            return Verdict(found["compatible"], reasons_from(found["reasons"]), found["version"])

        return await self._fresh(("check", contract, _key(schema), version, normalize), fetch)

    async def set_compatibility(self, contract: str, compatibility: Compatibility) -> None:
        await self._post(_path(contract, "compatibility"), {"compatibility": compatibility.value})

    async def delete(
        self, contract: str, version: int | None = None, *, permanent: bool = False
    ) -> Sequence[int]:
        path = _path(contract) if version is None else _path(contract, "versions", str(version))
        options = {"permanent": "true"} if permanent else None
        found = await self.call("DELETE", path, params=options)
        self._forget(contract)
        versions: list[int] = found["versions"]
        return versions

    async def close(self) -> None:
        for flight in list(self._flights.values()):
            flight.cancel()
        await self._http.aclose()

    async def _once(self, key: Key, fetch: Fetch[T]) -> T:
        if key in self._known:
            return cast(T, self._known[key])
        return await self._shared(key, fetch)

    async def _fresh(self, key: Key, fetch: Fetch[T]) -> T:
        try:
            return await self._shared(key, fetch)
        except RegistryUnavailable:
            if key in self._known:
                return cast(T, self._known[key])
            raise

    async def _shared(self, key: Key, fetch: Fetch[T]) -> T:
        """One request for all who ask while it is under way. Who gives up does not take the others along."""
        flight = self._flights.get(key)
        if flight is None:
            flight = asyncio.ensure_future(self._fly(key, fetch))
            self._flights[key] = flight
        return cast(T, await asyncio.shield(flight))

    async def _fly(self, key: Key, fetch: Fetch[T]) -> T:
        try:
            found = self._known[key] = await fetch()
            return found
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _no_registry("The server's answer lacks what a registry's has.") from error
        finally:
            self._flights.pop(key, None)

    def _forget(self, contract: str) -> None:
        for key in [key for key in self._known if contract in key[1:2]]:
            del self._known[key]

    def _version(self, found: Mapping[str, Any]) -> ContractVersion:
        schema = _schema(found)
        self._known["schema", schema.id] = schema
        return ContractVersion(found["contract"], found["version"], schema)

    async def _get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        return await self.call("GET", path, params=params)

    async def _post(self, path: str, body: object, *, normalize: bool = False, **options: str) -> Any:
        if normalize:
            options["normalize"] = "true"
        return await self.call("POST", path, params=options or None, content=msgspec.json.encode(body))

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout: float | None = None,
    ) -> Any:
        """One call of the HTTP interface, tried again while the registry is away; the JSON it answers.

        ``timeout`` is for calls that take longer than others.
        """
        patience = httpx.USE_CLIENT_DEFAULT if timeout is None else timeout
        headers = {"Content-Type": "application/json"} if content is not None else None
        for failures in range(_ATTEMPTS):
            if failures:
                await asyncio.sleep(_BACKOFF.wait_s(failures))
            try:
                answer = await self._http.request(
                    method, path, params=params, content=content, headers=headers, timeout=patience
                )
            except (httpx.TransportError, OSError) as error:
                failure = f"The registry does not answer: {str(error) or type(error).__name__}."
                continue
            if answer.status_code in _AWAY:
                failure = f"The registry answers {answer.status_code}."
                continue
            return _read(answer)
        raise RegistryUnavailable(failure, next="Is it running, and is the URL right?", registry=self.url)


def _read(answer: httpx.Response) -> Any:
    try:
        found = msgspec.json.decode(answer.content)
    except msgspec.DecodeError:
        found = None
    if answer.is_success and found is not None:
        return found
    if not isinstance(found, dict) or "message" not in found:
        raise _no_registry(f"The server answers {answer.status_code}, and not as a registry would.")
    code = str(found.get("code") or _CODES_BY_STATUS.get(answer.status_code, "registry"))
    where = {str(name): value for name, value in (found.get("where") or {}).items()}
    error = error_from(code, str(found["message"]), str(found.get("next", "")), where)
    if isinstance(error, IncompatibleSchema):
        error.reasons = reasons_from(found.get("reasons") or ())
    raise error


def _no_registry(what: str) -> RegistryError:
    return RegistryError(what, next="Does the URL lead to a Dragoman registry?")


_CODES_BY_STATUS = {
    401: "registry.unauthenticated",
    403: "registry.forbidden",
    404: "registry.not-found",
    409: "registry.conflict",
    429: "registry.too-many-logins",
}


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        # What is wrong with a port is only told to who asks for it.
        valid = bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ConfigurationError(
            f"{redacted(url)!r} leads to no registry.",
            next="Write http://host:port, with what is special in user and password quoted, as %2F for /.",
        )
    return parts


def _trust(ca: str) -> ssl.SSLContext | bool:
    if not ca:
        return True
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"The file of trusted certificates cannot be used: {error}.", ca=ca
        ) from error


def _path(contract: str, *more: str) -> str:
    return "/".join(("/contracts", quote(contract, safe=""), *more))


def _key(schema: Schema) -> Key:
    return schema.type, schema.text, schema.references


def _body(schema: Schema) -> dict[str, Any]:
    references = [
        {"name": each.name, "contract": each.contract, "version": each.version} for each in schema.references
    ]
    return {"type": schema.type, "schema": schema.text, "references": references}


def _schema(found: Mapping[str, Any]) -> Schema:
    references = tuple(
        Reference(each["name"], each["contract"], each["version"]) for each in found.get("references") or ()
    )
    return Schema(found["type"], found["schema"], references, found["id"], found.get("fingerprint"))
