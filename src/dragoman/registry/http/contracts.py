"""The contract API: contracts by name, their versions, and schemas by id."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.core.contract import Compatibility
from dragoman.core.database import Transaction
from dragoman.registry import lookup, refusals
from dragoman.registry.access import Principal, Role
from dragoman.registry.http.answers import json_answer, reasons_value
from dragoman.registry.http.requests import (
    SchemaBody,
    context_of,
    contract_of,
    flag,
    id_of,
    keep,
    page,
    path_text,
    principal_of,
    read_json,
    state_of,
)
from dragoman.registry.model import Draft, Settings, StoredSchema, StoredVersion
from dragoman.registry.name import ContractName, parse_name
from dragoman.registry.registration import Registration
from dragoman.registry.service import RegistryService, describe_contract
from dragoman.registry.store import contracts, history, schemas


class CompatibilityBody(msgspec.Struct):
    compatibility: str


def service_of(request: Request) -> RegistryService:
    """The service, acting for whoever sent the request."""
    return state_of(request).service.by(principal_of(request).name)


async def get_schema(request: Request) -> Response:
    found = await visible_schema(request, id_of(request))
    return json_answer(schema_value(found))


async def visible_schema(request: Request, id: int | None) -> StoredSchema:
    """A schema by id, if the reader may see one of the contracts that use it."""
    context, principal = context_of(request), principal_of(request)

    def work(tx: Transaction) -> StoredSchema | None:
        found = None if id is None else schemas.by_id(tx, context, id)
        return found if found and may_see(tx, principal, found) else None

    found = await service_of(request).engine.read(work)
    if found is None:
        raise refusals.no_schema(path_text(request, "id"))
    keep(request)
    return found


def may_see(tx: Transaction, principal: Principal, schema: StoredSchema) -> bool:
    if principal.may(Role.READ):
        return True
    users = contracts.of_schema(tx, schema.context, schema.id, deleted=True)
    return any(principal.may(Role.READ, each.name) for each in users)


async def list_contracts(request: Request) -> Response:
    principal = principal_of(request)
    found = await service_of(request).contracts(request.query_params.get("prefix", ""))
    return json_answer(page(request, [name for name in found if principal.may(Role.READ, name)]))


async def get_contract(request: Request) -> Response:
    name = readable(request)

    def work(tx: Transaction) -> dict[str, Any]:
        contract = describe_contract(tx, name)
        return {
            "name": contract.name,
            "channel": contract.channel,
            "compatibility": contract.compatibility.value,
            "version": contract.version,
            "updateOrder": contract.update_order.value,
            "channels": list(history.channels_of(tx, name)) or [contract.channel],
        }

    keep(request)
    return json_answer(await service_of(request).engine.read(work))


async def register(request: Request) -> Response:
    name = writable(request)
    draft = checked_draft(request, name, (await read_json(request, SchemaBody)).draft())
    asked = Registration(name, draft, flag(request, "normalize"), author=principal_of(request).name)
    found = await service_of(request).submit(asked)
    return json_answer(version_value(found))


async def find(request: Request) -> Response:
    name = readable(request)
    draft = checked_draft(request, name, (await read_json(request, SchemaBody)).draft())
    found = await service_of(request).search(name, draft, normalize=flag(request, "normalize"))
    return json_answer(version_value(found))


async def list_versions(request: Request) -> Response:
    found = await service_of(request).versions(str(readable(request)))
    keep(request)
    return json_answer(page(request, list(found)))


async def get_version(request: Request) -> Response:
    name = readable(request)
    number = lookup.version_number(path_text(request, "version"))
    found = await service_of(request).engine.read(lambda tx: lookup.version_of(tx, name, number))
    keep(request)
    return json_answer(version_value(found))


async def set_compatibility(request: Request) -> Response:
    name = contract_of(request)
    principal_of(request).require(Role.ADMIN, name)
    body = await read_json(request, CompatibilityBody)
    await service_of(request).configure(name, Settings(compatibility=compatibility_named(body.compatibility)))
    return json_answer({"success": True})


def compatibility_named(text: str) -> Compatibility:
    try:
        return Compatibility(text.upper().replace(" ", "_"))
    except ValueError:
        raise refusals.invalid_compatibility() from None


async def check(request: Request) -> Response:
    name = readable(request)
    draft = checked_draft(request, name, (await read_json(request, SchemaBody)).draft())
    asked = request.query_params.get("version")
    number = None if asked is None else lookup.version_number(asked)
    verdict, _ = await service_of(request).judge(name, draft, number, normalize=flag(request, "normalize"))
    return json_answer(
        {
            "compatible": verdict.compatible,
            "version": verdict.version,
            "reasons": reasons_value(verdict.reasons),
        }
    )


async def delete_contract(request: Request) -> Response:
    return await _delete(request, None)


async def delete_version(request: Request) -> Response:
    return await _delete(request, lookup.version_number(path_text(request, "version")))


async def _delete(request: Request, number: int | None) -> Response:
    permanent = flag(request, "permanent")
    name = deletable(request, permanent)
    gone = await service_of(request).delete(str(name), number, permanent=permanent)
    return json_answer({"versions": list(gone)})


def readable(request: Request, part: str = "name") -> ContractName:
    name = contract_of(request, part)
    principal_of(request).require(Role.READ, name)
    return name


def writable(request: Request, part: str = "name") -> ContractName:
    name = contract_of(request, part)
    principal_of(request).require(Role.WRITE, name)
    return name


def deletable(request: Request, permanent: bool, part: str = "name") -> ContractName:
    name = contract_of(request, part)
    principal_of(request).require(Role.ADMIN if permanent else Role.WRITE, name)
    return name


def checked_draft(request: Request, name: ContractName, draft: Draft) -> Draft:
    """The draft, if the sender may read all that it refers to: a reference makes it part of this schema."""
    for reference in draft.references:
        principal_of(request).require(Role.READ, parse_name(reference.contract, name.context))
    return draft


def schema_value(schema: StoredSchema) -> dict[str, Any]:
    value: dict[str, Any] = {
        "id": schema.id,
        "type": schema.type,
        "schema": schema.text,
        "guid": schema.guid,
        "fingerprint": schema.fingerprint,
        "references": [
            {"name": each.name, "contract": each.contract, "version": each.version}
            for each in schema.references
        ],
    }
    if schema.metadata is not None:
        value["metadata"] = schema.metadata
    return value


def version_value(found: StoredVersion) -> dict[str, Any]:
    schema = schema_value(found.schema)
    return {"contract": str(found.name), "version": found.version, "schemaID": found.schema.id, **schema}


ROUTES = [
    Route("/schemas/{id}", get_schema, methods=["GET"]),
    Route("/contracts", list_contracts, methods=["GET"]),
    Route("/contracts/{name}", get_contract, methods=["GET"]),
    Route("/contracts/{name}", register, methods=["POST"]),
    Route("/contracts/{name}", delete_contract, methods=["DELETE"]),
    Route("/contracts/{name}/versions", list_versions, methods=["GET"]),
    Route("/contracts/{name}/versions", find, methods=["POST"]),
    Route("/contracts/{name}/versions/{version}", get_version, methods=["GET"]),
    Route("/contracts/{name}/versions/{version}", delete_version, methods=["DELETE"]),
    Route("/contracts/{name}/compatibility", set_compatibility, methods=["POST"]),
    Route("/contracts/{name}/check", check, methods=["POST"]),
]
