"""The subject API's settings: compatibility and other configuration, modes, contexts."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.core.database import Transaction
from dragoman.core.errors import Conflict
from dragoman.registry import refusals
from dragoman.registry.access import Role
from dragoman.registry.http.contracts import service_of
from dragoman.registry.http.requests import context_of, flag, page, path_text, principal_of, read_json
from dragoman.registry.http.subject_values import ConfigBody, answer, config_value
from dragoman.registry.model import Mode, Settings
from dragoman.registry.modes import clear_mode, mode_named, require_writable, set_mode
from dragoman.registry.name import (
    DEFAULT_CONTEXT,
    ContractName,
    context_name,
    contract_name,
    parse_name,
)
from dragoman.registry.store import contracts, history, settings


class ModeBody(msgspec.Struct):
    mode: str


def scope_of(request: Request, role: Role) -> ContractName:
    """A contract, or, without one or with an empty one, its context."""
    if "subject" not in request.path_params:
        scope = ContractName(context_of(request), "")
    else:
        text = path_text(request, "subject")
        scope = parse_name(text, context_of(request))
        if scope.contract:
            scope = contract_name(text, context_of(request))
    principal_of(request).require(role, scope if scope.contract else None)
    return scope


async def get_config(request: Request) -> Response:
    scope = scope_of(request, Role.READ)
    inherit = flag(request, "defaultToGlobal") or not scope.contract

    def work(tx: Transaction) -> Settings | None:
        return settings.effective(tx, scope) if inherit else settings.own(tx, scope)

    found = await service_of(request).engine.read(work)
    if found is None or found == Settings():
        raise refusals.no_settings(scope)
    return answer(_shown(found, inherited=inherit))


def _shown(found: Settings, *, inherited: bool) -> dict[str, object]:
    value = config_value(found)
    if inherited and value.get("normalize") is False:
        # The default of a setting that is not set is not listed.
        del value["normalize"]
    return value


async def put_config(request: Request) -> Response:
    scope = scope_of(request, Role.ADMIN)
    body = await read_json(request, ConfigBody)
    change = body.settings()
    await service_of(request).configure(scope, change)
    return answer(config_value(change, level="compatibility"))


async def delete_config(request: Request) -> Response:
    scope, author = scope_of(request, Role.ADMIN), principal_of(request).name

    def work(tx: Transaction) -> Settings:
        require_writable(tx, scope)
        before = settings.own(tx, scope)
        if before is None and scope.contract:
            raise refusals.no_contract(scope)
        settings.set_own(tx, scope, None)
        history.record(tx, author, "configure", scope, None, {})
        return before or settings.effective(tx, scope)

    before = await service_of(request).engine.write(work, ContractName(scope.context, ""))
    return answer(config_value(before))


async def get_mode(request: Request) -> Response:
    scope = scope_of(request, Role.READ)
    inherit = flag(request, "defaultToGlobal") or not scope.contract

    def work(tx: Transaction) -> Mode | None:
        return settings.effective_mode(tx, scope) if inherit else settings.own_mode(tx, scope)

    found = await service_of(request).engine.read(work)
    if found is None:
        raise refusals.no_mode(scope)
    return answer({"mode": found.value})


async def put_mode(request: Request) -> Response:
    scope, author = scope_of(request, Role.ADMIN), principal_of(request).name
    mode = mode_named((await read_json(request, ModeBody)).mode)
    force = flag(request, "force")
    await service_of(request).engine.write(
        lambda tx: set_mode(tx, scope, mode, force=force, author=author), ContractName(scope.context, "")
    )
    return answer({"mode": mode.value})


async def delete_mode(request: Request) -> Response:
    scope, author = scope_of(request, Role.ADMIN), principal_of(request).name
    recursive = flag(request, "recursive")
    before = await service_of(request).engine.write(
        lambda tx: clear_mode(tx, scope, recursive=recursive, author=author), ContractName(scope.context, "")
    )
    return answer({"mode": before.value})


async def list_contexts(request: Request) -> Response:
    prefix, principal = request.query_params.get("contextPrefix", ""), principal_of(request)
    names = await service_of(request).engine.read(lambda tx: contracts.names(tx, deleted=True))
    found = {DEFAULT_CONTEXT, *(name.context for name in names if principal.may(Role.READ, name))}
    return answer(page(request, sorted(name for name in found if name.startswith(prefix))))


async def delete_context(request: Request) -> Response:
    principal_of(request).require(Role.ADMIN)
    context, author = context_name(path_text(request, "context")), principal_of(request).name

    def work(tx: Transaction) -> None:
        if context == DEFAULT_CONTEXT or any(
            name.context == context for name in contracts.names(tx, deleted=True)
        ):
            raise Conflict(
                f"The specified context '{context}' is not empty.", code="registry.context-not-empty"
            )
        contracts.remove_context(tx, context)
        history.record(tx, author, "delete", ContractName(context, ""))

    await service_of(request).engine.write(work, ContractName(context, ""))
    return Response(status_code=204)


ROUTES = [
    *(
        Route(path, handler, methods=[method])
        for path in ("/config", "/config/{subject}")
        for method, handler in (("GET", get_config), ("PUT", put_config), ("DELETE", delete_config))
    ),
    *(
        Route(path, handler, methods=[method])
        for path in ("/mode", "/mode/{subject}")
        for method, handler in (("GET", get_mode), ("PUT", put_mode), ("DELETE", delete_mode))
    ),
    Route("/contexts", list_contexts, methods=["GET"]),
    Route("/contexts/{context}", delete_context, methods=["DELETE"]),
]
