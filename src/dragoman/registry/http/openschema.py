"""OpenSchema over the same contracts, at ``/openschema/v1`` or for whoever accepts its media type."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.core.database import Transaction
from dragoman.core.errors import DragomanError
from dragoman.registry import lookup
from dragoman.registry.access import Role
from dragoman.registry.http.answers import json_answer, sentence
from dragoman.registry.http.contracts import compatibility_named, service_of, visible_schema
from dragoman.registry.http.requests import (
    context_of,
    id_of,
    keep_not,
    path_text,
    principal_of,
    read_json,
)
from dragoman.registry.http.subjects import deleted, subject_of
from dragoman.registry.model import LATEST, Draft, Json, Settings, StoredSchema, StoredVersion
from dragoman.registry.name import ContractName
from dragoman.registry.refusals import status_of
from dragoman.registry.registration import Registration
from dragoman.registry.store import contracts, settings

PREFIX = "/openschema/v1"
MEDIA_TYPE = "application/vnd.openschema.v1+json"

_CODES = {40101, 40301, 40401, 40402, 40403, 40901, 42201, 42202, 42203, 50001}


class SchemaBody(msgspec.Struct, rename="camel"):
    schema_definition: str | None = None
    schema: str | None = None
    serialization: str | None = None
    name: str | None = None
    comment: str | None = None

    def draft(self, serialization: str | None = None) -> Draft:
        kind = self.serialization or serialization or "avro"
        return Draft(kind.upper(), self.schema_definition or self.schema or "")


class SubjectBody(msgspec.Struct):
    compatibility: str | None = None
    format: str | None = None
    schema: SchemaBody | str | None = None
    tenant: str | None = None
    namespace: str | None = None
    app: str | None = None
    description: str | None = None
    status: str | None = None
    coordinate: Json | None = None

    def attributes(self) -> Json:
        named = ("tenant", "namespace", "app", "description", "status", "coordinate")
        return {name: value for name in named if (value := getattr(self, name)) is not None}

    def draft(self) -> Draft | None:
        if self.schema is None:
            return None
        body = self.schema if isinstance(self.schema, SchemaBody) else SchemaBody(schema=self.schema)
        return body.draft(self.format)


class ConfigBody(msgspec.Struct):
    compatibility: str


def openschema_error(error: DragomanError) -> Response:
    status, code = status_of(error.code)
    code = code if code in _CODES else {404: 40401, 409: 40901, 422: 42201}.get(status, code)
    return answer({"errorCode": code, "errorMessage": sentence(error)}, status)


def answer(value: Any, status: int = 200) -> Response:
    return json_answer(value, status, MEDIA_TYPE)


def _schema_value(schema: StoredSchema, version: int | None, name: str) -> Json:
    return {
        "name": name,
        "id": str(schema.id),
        "comment": "",
        "serialization": schema.type.lower(),
        "schemaDefinition": schema.text,
        "validator": "",
        "version": version,
    }


async def get_schema(request: Request) -> Response:
    found = await visible_schema(request, id_of(request))
    users = await _users(request, found)
    first = users[0] if users else None
    keep_not(request)
    return answer(_schema_value(found, first.version if first else None, str(first.name) if first else ""))


async def get_schema_subjects(request: Request) -> Response:
    found = await visible_schema(request, id_of(request))
    keep_not(request)
    users = await _users(request, found)
    return answer([{"subject": str(each.name), "version": each.version} for each in users])


async def _users(request: Request, schema: StoredSchema) -> list[StoredVersion]:
    principal = principal_of(request)
    found = await service_of(request).engine.read(
        lambda tx: contracts.of_schema(tx, schema.context, schema.id)
    )
    return [each for each in found if principal.may(Role.READ, each.name)]


async def list_subjects(request: Request) -> Response:
    principal, context = principal_of(request), context_of(request)
    found = await service_of(request).engine.read(contracts.names)
    shown = [name for name in found if principal.may(Role.READ, name) and name.context == context]
    return answer({"name": [str(name) for name in shown]})


async def get_subject(request: Request) -> Response:
    return answer(await _subject_value(request, await subject_of(request, Role.READ)))


async def _subject_value(request: Request, name: ContractName) -> Json:
    def work(tx: Transaction) -> Json:
        own = settings.own(tx, name)
        found = contracts.versions(tx, name)
        if not found and own is None:
            lookup.version_of(tx, name, LATEST)
        latest = found[-1] if found else None
        return {
            "tenant": "",
            "namespace": "",
            "subject": str(name),
            "app": "",
            "description": "",
            "status": "released",
            "coordinate": {},
            **((own.attributes if own else None) or {}),
            "compatibility": str(settings.effective(tx, name).compatibility),
            "createdTime": int(found[0].created * 1000) if found else None,
            "lastModifiedTime": int(latest.created * 1000) if latest else None,
            "format": latest.schema.type.lower() if latest else None,
            "schema": _schema_value(latest.schema, latest.version, str(name)) if latest else None,
        }

    return await service_of(request).engine.read(work)


async def put_subject(request: Request) -> Response:
    """Describe a subject, and register its schema if one is there; if that is refused, nothing changes."""
    name = await subject_of(request, Role.WRITE)
    body = await read_json(request, SubjectBody)
    change, draft = _change(request, name, body), body.draft()
    service = service_of(request)
    asked = None if draft is None else Registration(name, draft, author=principal_of(request).name)
    if change is not None and asked is not None:
        await service.configure_and_submit(change, asked)
    elif change is not None:
        await service.configure(name, change)
    elif asked is not None:
        await service.submit(asked)
    return answer(await _subject_value(request, name))


def _change(request: Request, name: ContractName, body: SubjectBody) -> Settings | None:
    """What the body says about the subject itself, which only administrators may."""
    if not body.compatibility and not body.attributes():
        return None
    principal_of(request).require(Role.ADMIN, name)
    strategy = compatibility_named(body.compatibility) if body.compatibility else None
    return Settings(compatibility=strategy, attributes=body.attributes() or None)


async def delete_subject(request: Request) -> Response:
    return answer(await deleted(request))


async def list_versions(request: Request) -> Response:
    name = await subject_of(request, Role.READ)
    return answer({"version": list(await service_of(request).versions(str(name)))})


async def register(request: Request) -> Response:
    name = await subject_of(request, Role.WRITE)
    body = await read_json(request, SchemaBody)
    asked = Registration(name, body.draft(), author=principal_of(request).name)
    return answer({"id": str((await service_of(request).submit(asked)).schema.id)})


async def get_version(request: Request) -> Response:
    name = await subject_of(request, Role.READ)
    number = lookup.version_number(path_text(request, "version"))
    found = await service_of(request).engine.read(lambda tx: lookup.version_of(tx, name, number))
    return answer(_schema_value(found.schema, found.version, str(name)))


async def delete_version(request: Request) -> Response:
    (gone,) = await deleted(request)
    return answer(gone)


async def check(request: Request) -> Response:
    name = await subject_of(request, Role.READ)
    number = lookup.version_number(path_text(request, "version"))
    body = await read_json(request, SchemaBody)
    verdict, _ = await service_of(request).judge(name, body.draft(), number)
    return answer({"isCompatible": verdict.compatible})


async def get_config(request: Request) -> Response:
    name = await subject_of(request, Role.READ)
    found = await service_of(request).engine.read(lambda tx: settings.effective(tx, name))
    return answer({"compatibility": str(found.compatibility)})


async def put_config(request: Request) -> Response:
    name = await subject_of(request, Role.ADMIN)
    strategy = compatibility_named((await read_json(request, ConfigBody)).compatibility)
    await service_of(request).configure(name, Settings(compatibility=strategy))
    return answer({"compatibility": strategy.value})


_ENDPOINTS = (
    ("GET", "/schemas/{id}", get_schema),
    ("GET", "/schemas/{id}/subject", get_schema_subjects),
    ("GET", "/subjects", list_subjects),
    ("GET", "/subjects/{subject}", get_subject),
    ("POST", "/subjects/{subject}", put_subject),
    ("DELETE", "/subjects/{subject}", delete_subject),
    ("GET", "/subjects/{subject}/versions", list_versions),
    ("POST", "/subjects/{subject}/versions", register),
    ("GET", "/subjects/{subject}/versions/{version}/schema", get_version),
    ("DELETE", "/subjects/{subject}/versions/{version}", delete_version),
    ("POST", "/compatibility/subjects/{subject}/versions/{version}", check),
    ("GET", "/config/{subject}", get_config),
    ("PUT", "/config/{subject}", put_config),
)

ROUTES = [Route(PREFIX + path, handler, methods=[method]) for method, path, handler in _ENDPOINTS]
