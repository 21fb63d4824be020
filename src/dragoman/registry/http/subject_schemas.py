"""The subject API, second half: schemas by id and GUID, and what the server says of itself."""

from __future__ import annotations

import uuid
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.core.database import Transaction
from dragoman.registry import lookup, refusals
from dragoman.registry.access import Role
from dragoman.registry.http.answers import SUBJECT_JSON, text_answer
from dragoman.registry.http.contracts import may_see, service_of
from dragoman.registry.http.requests import (
    context_of,
    flag,
    id_of,
    keep,
    page,
    path_text,
    principal_of,
)
from dragoman.registry.http.subject_values import answer, form_of, schema_string, subject_version
from dragoman.registry.http.subjects import prefix_filter
from dragoman.registry.model import StoredSchema, StoredVersion
from dragoman.registry.name import ContractName, parse_name
from dragoman.registry.parsing import schema_types
from dragoman.registry.store import contracts, schemas

MOST_SCHEMAS = 1000

_USUAL_TYPES = ("AVRO", "JSON", "PROTOBUF")


async def get_by_id(request: Request) -> Response:
    found, text, greatest = await _by_id(request)
    value = schema_string(found, text)
    if greatest is not None:
        value["maxId"] = greatest
    return answer(value)


async def get_text_by_id(request: Request) -> Response:
    _, text, _ = await _by_id(request)
    return text_answer(text, SUBJECT_JSON)


async def _by_id(request: Request) -> tuple[StoredSchema, str, int | None]:
    id, context = id_of(request), context_of(request)
    principal, engine = principal_of(request), service_of(request).engine
    counted = flag(request, "fetchMaxId")

    def work(tx: Transaction) -> tuple[StoredSchema, str, int | None]:
        for place in _contexts(tx, request, context):
            found = None if id is None else schemas.by_id(tx, place, id)
            if found is not None and may_see(tx, principal, found):
                greatest = schemas.greatest_id(tx, place) if counted else None
                return found, form_of(request, tx, engine.parser, found), greatest
        raise refusals.no_schema(path_text(request, "id"))

    found = await engine.read(work)
    if not counted:
        keep(request)
    return found


def _contexts(tx: Transaction, request: Request, context: str) -> list[str]:
    """Where an id is looked for: in the context of the subject that the query names, if it does."""
    subject = request.query_params.get("subject", "")
    if not subject:
        return [context]
    return [lookup.unaliased(tx, parse_name(subject, context)).context]


async def subjects_of_id(request: Request) -> Response:
    found = await _users(request)
    return answer(page(request, list(dict.fromkeys(str(each.name) for each in found))))


async def versions_of_id(request: Request) -> Response:
    found = await _users(request)
    return answer(page(request, [{"subject": str(each.name), "version": each.version} for each in found]))


async def _users(request: Request) -> list[StoredVersion]:
    id, context = id_of(request), context_of(request)
    deleted, principal = flag(request, "deleted"), principal_of(request)
    subject = request.query_params.get("subject", "")

    def work(tx: Transaction) -> list[StoredVersion]:
        (place,) = _contexts(tx, request, context)
        schema = None if id is None else schemas.by_id(tx, place, id)
        if schema is None or not may_see(tx, principal, schema):
            raise refusals.no_schema(path_text(request, "id"))
        found = contracts.of_schema(tx, place, schema.id, deleted=deleted)
        wanted = parse_name(subject, context).contract
        return [
            each
            for each in found
            if principal.may(Role.READ, each.name) and (not wanted or each.name.contract == wanted)
        ]

    return await service_of(request).engine.read(work)


async def get_by_guid(request: Request) -> Response:
    found = await _by_guid(request)
    engine = service_of(request).engine
    text = await engine.read(lambda tx: form_of(request, tx, engine.parser, found[0]))
    keep(request)
    return answer(schema_string(found[0], text))


async def ids_of_guid(request: Request) -> Response:
    return answer([{"context": each.context, "id": each.id} for each in await _by_guid(request)])


async def _by_guid(request: Request) -> list[StoredSchema]:
    text, principal = path_text(request, "guid"), principal_of(request)
    try:
        guid = str(uuid.UUID(text))
    except ValueError:
        raise refusals.no_schema(text) from None

    def work(tx: Transaction) -> list[StoredSchema]:
        return [each for each in schemas.by_guid(tx, guid) if may_see(tx, principal, each)]

    found = await service_of(request).engine.read(work)
    if not found:
        raise refusals.no_schema(text)
    return found


async def list_schemas(request: Request) -> Response:
    matches, deleted = prefix_filter(request), flag(request, "deleted")
    latest_only, principal = flag(request, "latestOnly"), principal_of(request)
    rule_type = request.query_params.get("ruleType", "")

    def work(tx: Transaction) -> list[StoredVersion]:
        return list(contracts.all_versions(tx, deleted=deleted))

    found = [
        each
        for each in await service_of(request).engine.read(work)
        if matches(each.name) and principal.may(Role.READ, each.name) and _has_rule(each, rule_type)
    ]
    if latest_only:
        newest: dict[ContractName, StoredVersion] = {each.name: each for each in found}
        found = list(newest.values())
    return answer([subject_version(each, each.schema.text) for each in page(request, found, MOST_SCHEMAS)])


def _has_rule(found: StoredVersion, rule_type: str) -> bool:
    if not rule_type:
        return True
    groups: list[Any] = [group for group in (found.schema.rule_set or {}).values() if isinstance(group, list)]
    return any(isinstance(rule, dict) and rule.get("type") == rule_type for group in groups for rule in group)


async def list_types(request: Request) -> Response:
    """The types that clients of this API know. Some of them fail when they are told of another."""
    found = schema_types()
    return answer([each for each in found if each in _USUAL_TYPES or flag(request, "all")])


async def root(request: Request) -> Response:
    return answer({})


async def server_version(request: Request) -> Response:
    return answer({"version": version("dragoman"), "commitId": ""})


async def server_id(request: Request) -> Response:
    clusters = {"kafka-cluster": "", "schema-registry-cluster": "dragoman"}
    return answer({"scope": {"path": [], "clusters": clusters}, "id": ""})


async def server_deployment(request: Request) -> Response:
    return answer({"attributes": []})


ROUTES = [
    Route("/", root, methods=["GET", "POST"]),
    Route("/schemas", list_schemas, methods=["GET"]),
    Route("/schemas/types", list_types, methods=["GET"]),
    Route("/schemas/ids/{id}", get_by_id, methods=["GET"]),
    Route("/schemas/ids/{id}/schema", get_text_by_id, methods=["GET"]),
    Route("/schemas/ids/{id}/subjects", subjects_of_id, methods=["GET"]),
    Route("/schemas/ids/{id}/versions", versions_of_id, methods=["GET"]),
    Route("/schemas/guids/{guid}", get_by_guid, methods=["GET"]),
    Route("/schemas/guids/{guid}/ids", ids_of_guid, methods=["GET"]),
    Route("/v1/metadata/id", server_id, methods=["GET"]),
    Route("/v1/metadata/version", server_version, methods=["GET"]),
    Route("/v1/metadata/deployment", server_deployment, methods=["GET"]),
]
