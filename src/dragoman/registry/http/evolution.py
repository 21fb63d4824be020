"""The contract API, second half: channels of a contract, its history, and versions side by side."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.core.channel import check_name
from dragoman.core.database import Transaction
from dragoman.core.errors import NotFound
from dragoman.registry import lookup
from dragoman.registry.access import Role
from dragoman.registry.bundle import collect, contexts_in, from_json, restore, to_json
from dragoman.registry.comparison import Comparison, compare
from dragoman.registry.http.answers import json_answer
from dragoman.registry.http.contracts import readable, service_of, writable
from dragoman.registry.http.requests import number, path_text, principal_of, read_body
from dragoman.registry.model import Change
from dragoman.registry.name import ContractName
from dragoman.registry.refusals import no_contract
from dragoman.registry.store import history


async def list_channels(request: Request) -> Response:
    name = readable(request)
    found = await service_of(request).engine.read(lambda tx: history.channels_of(tx, name))
    return json_answer(list(found))


async def bind(request: Request) -> Response:
    name, channel = writable(request), check_name(path_text(request, "channel"))
    await service_of(request).bind(name, channel)
    return json_answer({"contract": str(name), "channel": channel})


async def unbind(request: Request) -> Response:
    name, channel = writable(request), path_text(request, "channel")
    if not await service_of(request).unbind(name, channel):
        raise NotFound(f"'{name}' is not bound to channel {channel!r}.", code="registry.not-found.binding")
    return json_answer({"success": True})


async def contracts_of_channel(request: Request) -> Response:
    channel, principal = path_text(request, "channel"), principal_of(request)
    found = await service_of(request).engine.read(lambda tx: history.contracts_of(tx, channel))
    return json_answer([str(name) for name in found if principal.may(Role.READ, name)])


async def list_history(request: Request) -> Response:
    name = readable(request)
    limit = max(1, min(number(request, "limit", 100), 10_000))

    def work(tx: Transaction) -> list[Change]:
        found = list(history.of_contract(tx, name, limit))
        if not found:
            raise no_contract(name)
        return found

    return json_answer([change.value() for change in await service_of(request).engine.read(work)])


async def compare_versions(request: Request) -> Response:
    name = readable(request)
    newer = lookup.version_number(request.query_params.get("to", "latest"))
    older = request.query_params.get("from")
    parser = service_of(request).engine.parser

    def work(tx: Transaction) -> Comparison:
        last = lookup.version_of(tx, name, newer, deleted=True).version
        first = lookup.version_number(older) if older else lookup.previous(tx, name, last)
        return compare(tx, parser, name, first, last)

    return json_answer((await service_of(request).engine.read(work)).value())


async def export(request: Request) -> Response:
    principal_of(request).require(Role.ADMIN)
    bundle = await service_of(request).engine.read(collect)
    return Response(to_json(bundle), media_type="application/json")


async def import_bundle(request: Request) -> Response:
    principal = principal_of(request)
    principal.require(Role.ADMIN)
    bundle, engine = from_json(await read_body(request)), service_of(request).engine
    touched = [ContractName(context, "") for context in sorted(contexts_in(bundle))]
    done = await engine.write(lambda tx: restore(tx, engine.parser, bundle, author=principal.name), *touched)
    return json_answer(dict(done))


ROUTES = [
    Route("/contracts/{name}/channels", list_channels, methods=["GET"]),
    Route("/contracts/{name}/channels/{channel}", bind, methods=["PUT"]),
    Route("/contracts/{name}/channels/{channel}", unbind, methods=["DELETE"]),
    Route("/contracts/{name}/history", list_history, methods=["GET"]),
    Route("/contracts/{name}/compare", compare_versions, methods=["GET"]),
    Route("/channels/{channel}/contracts", contracts_of_channel, methods=["GET"]),
    Route("/export", export, methods=["GET"]),
    Route("/import", import_bundle, methods=["POST"]),
]
