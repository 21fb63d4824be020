"""The subject API, first half: subjects, their versions, and the compatibility check."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.core.database import Transaction
from dragoman.core.errors import InvalidSchema
from dragoman.registry import lookup, refusals
from dragoman.registry.access import Role
from dragoman.registry.http.answers import SUBJECT_JSON, sentence, text_answer
from dragoman.registry.http.contracts import checked_draft, service_of
from dragoman.registry.http.requests import (
    context_of,
    flag,
    keep,
    page,
    path_text,
    principal_of,
    read_json,
    state_of,
)
from dragoman.registry.http.subject_values import (
    SubjectBody,
    answer,
    form_of,
    subject_version,
)
from dragoman.registry.model import StoredVersion
from dragoman.registry.name import DEFAULT_CONTEXT, ContractName, contract_name
from dragoman.registry.registration import Registration
from dragoman.registry.store import contracts, schemas

ALL_CONTEXTS = ":*:"


async def subject_of(request: Request, role: Role) -> ContractName:
    """The contract behind the path's subject, aliases followed, with the right to it checked."""
    asked = contract_name(path_text(request, "subject"), context_of(request))
    name = await state_of(request).aliases.follow(asked)
    principal_of(request).require(role, name)
    request.scope["dragoman.contract"] = name
    # What is said under an alias would not be forgotten when the contract itself changes.
    request.scope["dragoman.aliased"] = name != asked
    return name


def keep_unless_aliased(request: Request) -> None:
    if not request.scope["dragoman.aliased"]:
        keep(request)


async def list_subjects(request: Request) -> Response:
    matches = prefix_filter(request)
    deleted, only = flag(request, "deleted"), flag(request, "deletedOnly")
    principal = principal_of(request)
    found = await service_of(request).engine.read(
        lambda tx: contracts.names(tx, deleted=deleted or only, live=not only)
    )
    shown = [str(name) for name in found if matches(name) and principal.may(Role.READ, name)]
    return answer(page(request, shown))


def prefix_filter(request: Request) -> Any:
    """Which names the query asks for: ``:.ctx:`` is a context, ``:*:`` all of them."""
    context = context_of(request)
    default = ALL_CONTEXTS if context == DEFAULT_CONTEXT else ""
    prefix = request.query_params.get("subjectPrefix", default)
    if prefix.startswith(ALL_CONTEXTS):
        rest = prefix.removeprefix(ALL_CONTEXTS)
        return lambda name: name.contract.startswith(rest)
    if prefix.startswith(":"):
        wanted, _, rest = prefix[1:].partition(":")
        return lambda name: name.context == wanted and name.contract.startswith(rest)
    return lambda name: name.context == context and name.contract.startswith(prefix)


async def list_versions(request: Request) -> Response:
    name = await subject_of(request, Role.READ)
    deleted, only = flag(request, "deleted"), flag(request, "deletedOnly")
    negative = flag(request, "deletedAsNegative")
    found = await service_of(request).engine.read(lambda tx: contracts.numbers(tx, name))
    shown = [
        -number if hidden and negative else number
        for number, hidden in found
        if (hidden and (deleted or only or negative)) or (not hidden and not only)
    ]
    if not shown:
        raise refusals.no_contract(name)
    keep_unless_aliased(request)
    return answer(page(request, shown))


async def register(request: Request) -> Response:
    name = await subject_of(request, Role.WRITE)
    body = await read_json(request, SubjectBody)
    force = flag(request, "force")
    if force:
        principal_of(request).require(Role.ADMIN, name)
    author = principal_of(request).name
    draft = checked_draft(request, name, body.draft())
    if draft.id is not None:
        # All contracts of a context share its ids. A foreign id that was deleted, or the greatest there
        # is, must not be taken by an administrator of some contracts only.
        principal_of(request).require(Role.ADMIN, ContractName(name.context, ""))
    asked = Registration(name, draft, flag(request, "normalize"), force, author)
    found = await service_of(request).submit(asked)
    if request.headers.get("confluent-accept-unknown-properties", "").lower() != "true":
        return answer({"id": found.schema.id})
    return answer(subject_version(found, found.schema.text))


async def find(request: Request) -> Response:
    name = await subject_of(request, Role.READ)
    body = await read_json(request, SubjectBody)
    draft = checked_draft(request, name, body.draft())
    found = await service_of(request).search(
        name, draft, normalize=flag(request, "normalize"), deleted=flag(request, "deleted")
    )
    return answer(await _shown(request, found))


async def get_version(request: Request) -> Response:
    found = await _version(request)
    return answer(await _shown(request, found))


async def get_version_text(request: Request) -> Response:
    found = await _version(request)
    parser = service_of(request).engine.parser
    text = await service_of(request).engine.read(lambda tx: form_of(request, tx, parser, found.schema))
    return text_answer(text, SUBJECT_JSON)


async def _version(request: Request) -> StoredVersion:
    name = await subject_of(request, Role.READ)
    number = lookup.version_number(path_text(request, "version"))
    deleted = flag(request, "deleted")
    found = await service_of(request).engine.read(
        lambda tx: lookup.version_of(tx, name, number, deleted=deleted)
    )
    keep_unless_aliased(request)
    return found


async def _shown(request: Request, found: StoredVersion) -> dict[str, Any]:
    engine = service_of(request).engine
    if "format" not in request.query_params:
        return subject_version(found, found.schema.text)
    text = await engine.read(lambda tx: form_of(request, tx, engine.parser, found.schema))
    return subject_version(found, text)


async def get_by_metadata(request: Request) -> Response:
    """The latest version whose metadata has all the wanted properties."""
    name = await subject_of(request, Role.READ)
    deleted = flag(request, "deleted")
    keys, values = request.query_params.getlist("key"), request.query_params.getlist("value")
    wanted = dict(zip(keys, values, strict=False)).items()

    def work(tx: Transaction) -> StoredVersion:
        for version in reversed(contracts.versions(tx, name, deleted=deleted)):
            if wanted <= ((version.schema.metadata or {}).get("properties") or {}).items():
                return version
        if not lookup.exists(tx, name, deleted=deleted):
            raise refusals.no_contract(name)
        raise refusals.no_schema()

    return answer(await _shown(request, await service_of(request).engine.read(work)))


async def referenced_by(request: Request) -> Response:
    name = await subject_of(request, Role.READ)
    number = lookup.version_number(path_text(request, "version"))
    deleted = flag(request, "deleted")

    def work(tx: Transaction) -> list[int]:
        found = lookup.version_of(tx, name, number, deleted=True)
        return list(schemas.referencing(tx, name, found.version, deleted=deleted))

    return answer(page(request, await service_of(request).engine.read(work)))


async def delete_subject(request: Request) -> Response:
    return answer(await deleted(request))


async def delete_version(request: Request) -> Response:
    (gone,) = await deleted(request)
    return answer(gone)


async def deleted(request: Request) -> list[int]:
    """The versions of the path's subject, or the one that the path names, that were hidden, or are gone."""
    permanent = flag(request, "permanent")
    name = await subject_of(request, Role.ADMIN if permanent else Role.WRITE)
    one = "version" in request.path_params
    number = lookup.version_number(path_text(request, "version")) if one else None
    return list(await service_of(request).delete(str(name), number, permanent=permanent))


async def check_version(request: Request) -> Response:
    return await _check(request, lookup.version_number(path_text(request, "version")))


async def check_all(request: Request) -> Response:
    return await _check(request, None)


async def _check(request: Request, number: int | None) -> Response:
    name = await subject_of(request, Role.READ)
    body = await read_json(request, SubjectBody)
    verbose, normalize = flag(request, "verbose"), flag(request, "normalize")
    try:
        draft = checked_draft(request, name, body.draft())
        verdict, reasons = await service_of(request).judge(name, draft, number, normalize=normalize)
    except InvalidSchema as error:
        if not verbose:
            raise
        return answer({"is_compatible": False, "messages": [sentence(error)]})
    value: dict[str, Any] = {"is_compatible": verdict.compatible}
    if verbose:
        value["messages"] = reasons
    return answer(value)


ROUTES = [
    Route("/subjects", list_subjects, methods=["GET"]),
    Route("/subjects/{subject}", find, methods=["POST"]),
    Route("/subjects/{subject}", delete_subject, methods=["DELETE"]),
    Route("/subjects/{subject}/metadata", get_by_metadata, methods=["GET"]),
    Route("/subjects/{subject}/versions", list_versions, methods=["GET"]),
    Route("/subjects/{subject}/versions", register, methods=["POST"]),
    Route("/subjects/{subject}/versions/{version}", get_version, methods=["GET"]),
    Route("/subjects/{subject}/versions/{version}", delete_version, methods=["DELETE"]),
    Route("/subjects/{subject}/versions/{version}/schema", get_version_text, methods=["GET"]),
    Route("/subjects/{subject}/versions/{version}/referencedby", referenced_by, methods=["GET"]),
    Route("/compatibility/subjects/{subject}/versions", check_all, methods=["POST"]),
    Route("/compatibility/subjects/{subject}/versions/{version}", check_version, methods=["POST"]),
]
