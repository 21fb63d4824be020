"""Channel bindings as clients of the subject API ask for them: which subject belongs to a topic."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.registry.access import Role
from dragoman.registry.http.contracts import service_of
from dragoman.registry.http.requests import page, path_text, principal_of
from dragoman.registry.http.subject_values import answer
from dragoman.registry.name import ContractName
from dragoman.registry.store import history
from dragoman.schema.naming import part_of


async def of_resource(request: Request) -> Response:
    namespace, topic = path_text(request, "namespace"), path_text(request, "name")
    wanted = request.query_params.getlist("associationType")
    principal = principal_of(request)
    found = await service_of(request).engine.read(lambda tx: history.contracts_of(tx, topic))
    shown = [
        _association(namespace, topic, name)
        for name in found
        if principal.may(Role.READ, name) and (not wanted or part_of(name.contract) in wanted)
    ]
    return answer(page(request, shown))


def _association(namespace: str, topic: str, name: ContractName) -> dict[str, Any]:
    return {
        "subject": str(name),
        "resourceName": topic,
        "resourceNamespace": namespace,
        "resourceId": topic,
        "resourceType": "topic",
        "associationType": part_of(name.contract),
        "lifecycle": "STRONG",
        "frozen": False,
    }


ROUTES = [Route("/associations/resources/{namespace}/{name}", of_resource, methods=["GET"])]
