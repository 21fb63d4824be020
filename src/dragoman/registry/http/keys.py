"""Keys over HTTP, for administrators."""

from __future__ import annotations

import time

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.core.database import Transaction
from dragoman.registry.access import Grant, Role
from dragoman.registry.administration import key_value
from dragoman.registry.http.answers import json_answer
from dragoman.registry.http.contracts import service_of
from dragoman.registry.http.requests import number, path_text, principal_of, read_json, state_of
from dragoman.registry.keys import REGISTRY, NewKey, create_key, revoke
from dragoman.registry.store import history, keys


class KeyBody(msgspec.Struct):
    owner: str
    grants: list[str]
    lifetime: float | None = None
    """Seconds until it expires; never, without."""


async def create(request: Request) -> Response:
    principal = principal_of(request)
    principal.require(Role.ADMIN)
    body = await read_json(request, KeyBody)
    grants = tuple(Grant.parse(text) for text in body.grants)
    expires = None if body.lifetime is None else time.time() + body.lifetime

    def work(tx: Transaction) -> NewKey:
        return create_key(tx, body.owner, grants, expires=expires, author=principal.name)

    made = await service_of(request).engine.write(work, REGISTRY)
    return json_answer({"id": made.id, "secret": made.secret, "token": made.token})


async def list_keys(request: Request) -> Response:
    principal_of(request).require(Role.ADMIN)
    found = await service_of(request).engine.read(keys.everything)
    return json_answer([key_value(each) for each in found])


async def delete(request: Request) -> Response:
    principal = principal_of(request)
    principal.require(Role.ADMIN)
    id = path_text(request, "id")
    await service_of(request).engine.write(lambda tx: revoke(tx, id, author=principal.name), REGISTRY)
    authenticator = state_of(request).authenticator
    if authenticator is not None:
        authenticator.forget()
    return json_answer({"success": True})


async def list_history(request: Request) -> Response:
    """The audit log: every change to any contract, setting or key, newest first."""
    principal_of(request).require(Role.ADMIN)
    limit = max(1, min(number(request, "limit", 100), 10_000))
    found = await service_of(request).engine.read(lambda tx: history.everything(tx, limit))
    return json_answer([change.value() for change in found])


ROUTES = [
    Route("/keys", list_keys, methods=["GET"]),
    Route("/keys", create, methods=["POST"]),
    Route("/keys/{id}", delete, methods=["DELETE"]),
    Route("/history", list_history, methods=["GET"]),
]
