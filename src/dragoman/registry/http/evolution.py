"""The contract API, second half: channels, histories, versions side by side, whole registries."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.registry.access import Role, own_contract
from dragoman.registry.administration import Local
from dragoman.registry.bundle import from_json, to_json
from dragoman.registry.http.answers import JSON, json_answer
from dragoman.registry.http.contracts import readable, service_of, writable
from dragoman.registry.http.requests import number, path_text, principal_of, read_body, state_of
from dragoman.registry.lookup import version_number
from dragoman.registry.name import ContractName
from dragoman.registry.store import history


async def list_channels(request: Request) -> Response:
    name = readable(request)
    return json_answer(await Local(service_of(request)).channels(str(name)))


async def bind(request: Request) -> Response:
    name, channel = _binding(request)
    await service_of(request).bind(name, channel)
    return json_answer({"contract": str(name), "channel": channel})


async def unbind(request: Request) -> Response:
    name, channel = _binding(request)
    await service_of(request).unbind(name, channel)
    return json_answer({"success": True})


def _binding(request: Request) -> tuple[ContractName, str]:
    """The contract and the channel of the path. Both must be within what was granted."""
    name, channel = writable(request), path_text(request, "channel")
    principal_of(request).require(Role.WRITE, own_contract(channel, name))
    return name, channel


async def contracts_of_channel(request: Request) -> Response:
    channel, principal = path_text(request, "channel"), principal_of(request)
    found = await service_of(request).engine.read(lambda tx: history.contracts_of(tx, channel))
    return json_answer([str(name) for name in found if principal.may(Role.READ, name)])


async def list_history(request: Request) -> Response:
    name = readable(request)
    return json_answer(await Local(service_of(request)).history(str(name), _most(request)))


async def audit_log(request: Request) -> Response:
    """Every change to any contract, setting or key."""
    principal_of(request).require(Role.ADMIN)
    return json_answer(await Local(service_of(request)).history(None, _most(request)))


def _most(request: Request) -> int:
    return max(1, min(number(request, "limit", 100), 10_000))


async def compare_versions(request: Request) -> Response:
    name = readable(request)
    older, newer = (_version(request, side) for side in ("from", "to"))
    return json_answer(await Local(service_of(request)).compare(str(name), older, newer))


def _version(request: Request, name: str) -> int | None:
    asked = request.query_params.get(name)
    return version_number(asked) if asked else None


async def export(request: Request) -> Response:
    principal_of(request).require(Role.ADMIN)
    return Response(to_json(await Local(service_of(request)).export()), media_type=JSON)


async def import_bundle(request: Request) -> Response:
    principal_of(request).require(Role.ADMIN)
    bundle = from_json(await read_body(request, state_of(request).limits.bundle))
    return json_answer(await Local(service_of(request)).restore(bundle))


ROUTES = [
    Route("/contracts/{name}/channels", list_channels, methods=["GET"]),
    Route("/contracts/{name}/channels/{channel}", bind, methods=["PUT"]),
    Route("/contracts/{name}/channels/{channel}", unbind, methods=["DELETE"]),
    Route("/contracts/{name}/history", list_history, methods=["GET"]),
    Route("/contracts/{name}/compare", compare_versions, methods=["GET"]),
    Route("/channels/{channel}/contracts", contracts_of_channel, methods=["GET"]),
    Route("/history", audit_log, methods=["GET"]),
    Route("/export", export, methods=["GET"]),
    Route("/import", import_bundle, methods=["POST"]),
]
