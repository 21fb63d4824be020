"""Reading requests: bodies within limits, names and flags with clear refusals."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
from starlette.requests import Request

from dragoman.core.errors import ConfigurationError
from dragoman.core.schema import Reference
from dragoman.registry.access import Principal
from dragoman.registry.http.state import State
from dragoman.registry.model import GREATEST_NUMBER, LATEST, Draft
from dragoman.registry.name import DEFAULT_CONTEXT, ContractName, contract_name

T = TypeVar("T")


class ReferenceBody(msgspec.Struct):
    name: str
    version: int
    contract: str | None = None
    subject: str | None = None

    def value(self) -> Reference:
        target = self.contract or self.subject
        if not target or not (1 <= self.version <= GREATEST_NUMBER or self.version == LATEST):
            raise ConfigurationError(
                "A reference has a name, a contract, and a version of at least 1.",
                code="registry.invalid.request",
            )
        return Reference(self.name, target, self.version)


class SchemaBody(msgspec.Struct):
    """A schema in the contract API."""

    schema: str
    type: str = "AVRO"
    references: list[ReferenceBody] | None = None
    metadata: dict[str, Any] | None = None

    def draft(self) -> Draft:
        references = tuple(each.value() for each in self.references or ())
        return Draft(self.type.upper(), self.schema, references, self.metadata)


def state_of(request: Request) -> State:
    state: State = request.app.state.registry
    return state


def principal_of(request: Request) -> Principal:
    principal: Principal = request.scope["dragoman.principal"]
    return principal


def path_text(request: Request, part: str) -> str:
    """A part of the path as it was meant; routing sees it still quoted, so it may contain slashes."""
    try:
        text = unquote(request.path_params[part], errors="strict")
    except UnicodeDecodeError:
        raise ConfigurationError("The path is not UTF-8.", code="registry.invalid.name") from None
    if "\0" in text:
        raise ConfigurationError("The path has a NUL character.", code="registry.invalid.name")
    return text


def context_of(request: Request) -> str:
    """The context that a path below ``/contexts/`` set, else the default one."""
    context: str = request.scope.get("dragoman.context", DEFAULT_CONTEXT)
    return context


def keep(request: Request) -> None:
    """The answer may be kept until the contract changes, or, without one, until anything is deleted."""
    request.scope.setdefault("dragoman.keep", True)


def keep_not(request: Request) -> None:
    """The answer depends on more rights than the one to its contract: it is never kept."""
    request.scope["dragoman.keep"] = False


def contract_of(request: Request, part: str = "name") -> ContractName:
    """The contract that the path names; what is kept of the answer goes when this contract changes."""
    name = contract_name(path_text(request, part), context_of(request))
    request.scope["dragoman.contract"] = name
    return name


def id_of(request: Request, part: str = "id") -> int | None:
    """A schema id, or ``None`` for what cannot be one."""
    text = path_text(request, part)
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > GREATEST_NUMBER:
        return None
    return int(text)


def flag(request: Request, name: str, default: bool = False) -> bool:
    """A switch of the query: true, false, 1, 0, in any case."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if text.lower() in ("true", "1", ""):
        return True
    if text.lower() in ("false", "0"):
        return False
    raise ConfigurationError(f"{name} is true or false, not {text!r}.", code="registry.invalid.query")


def number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        value = None
    if value is None or not -GREATEST_NUMBER <= value <= GREATEST_NUMBER:
        raise ConfigurationError(f"{name} is a whole number, not {text!r}.", code="registry.invalid.query")
    return value


def page(request: Request, found: list[T] | tuple[T, ...], most: int | None = None) -> list[T]:
    """The part of a list that ``offset`` and ``limit`` ask for; a limit of 0 or less means all."""
    offset = max(0, number(request, "offset", 0))
    limit = number(request, "limit", -1)
    if limit <= 0 or (most is not None and limit > most):
        limit = most if most is not None else len(found)
    return list(found[offset : offset + limit])


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body, or a refusal as soon as it is too large."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise ConfigurationError(f"The request is larger than {limit} bytes.", code="registry.too-large")
        parts.append(part)
    return b"".join(parts)


async def read_json(request: Request, shape: type[T]) -> T:
    """The body as JSON of this shape."""
    body = await read_body(request, state_of(request).limits.body)
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            f"The request is not right: {error}.", code="registry.invalid.body"
        ) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"The request is not JSON: {error}.", code="registry.invalid.request"
        ) from None
