"""Keys over HTTP, for administrators."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.registry.access import Role
from dragoman.registry.administration import Local
from dragoman.registry.http.answers import json_answer
from dragoman.registry.http.contracts import service_of
from dragoman.registry.http.requests import path_text, principal_of, read_json


class KeyBody(msgspec.Struct):
    owner: str
    grants: list[str]
    lifetime: float | None = None
    """Seconds until it expires; never, without."""


async def create(request: Request) -> Response:
    principal_of(request).require(Role.ADMIN)
    body = await read_json(request, KeyBody)
    return json_answer(await Local(service_of(request)).create_key(body.owner, body.grants, body.lifetime))


async def list_keys(request: Request) -> Response:
    principal_of(request).require(Role.ADMIN)
    return json_answer(await Local(service_of(request)).keys())


async def delete(request: Request) -> Response:
    principal_of(request).require(Role.ADMIN)
    await Local(service_of(request)).revoke_key(path_text(request, "id"))
    return json_answer({"success": True})


ROUTES = [
    Route("/keys", list_keys, methods=["GET"]),
    Route("/keys", create, methods=["POST"]),
    Route("/keys/{id}", delete, methods=["DELETE"]),
]
